"""Promises of gpushare.extender.core.decisions."""

from __future__ import annotations

from gpushare.extender.core.decisions import (
    BOUND,
    MOST_CHARACTERS,
    MOST_DECISIONS,
    NOT_BOUND,
    REFUSED,
    Decision,
    Decisions,
)


def test_the_newest_decision_is_first() -> None:
    """Each with the whole second in which it was made."""
    decisions = Decisions()
    decisions.note(7.9, REFUSED, "ns", "p", "full")
    decisions.note(8.0, BOUND, "ns", "p", "n, card 0")

    assert decisions.newest() == (Decision(8, BOUND, "ns", "p", "n, card 0"), Decision(7, REFUSED, "ns", "p", "full"))


def test_old_decisions_are_dropped_and_still_counted() -> None:
    """The kept ones are bounded, in number and in size."""
    decisions = Decisions()
    for at in range(MOST_DECISIONS + 2):
        decisions.note(at, NOT_BOUND, "ns", "p", "x" * (MOST_CHARACTERS + 1))

    assert [one.at for one in decisions.newest()] == [*reversed(range(2, MOST_DECISIONS + 2))]
    assert {len(one.detail) for one in decisions.newest()} == {MOST_CHARACTERS}
    assert decisions.counts == {"bound": 0, "refused": 0, "not bound": MOST_DECISIONS + 2, "preemption": 0}
