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

    assert decisions.newest() == (
        Decision(8, BOUND, "ns", "p", "n, card 0", 1, 8),
        Decision(7, REFUSED, "ns", "p", "full", 1, 7),
    )


def test_the_same_decision_again_is_one() -> None:
    """With how often it came, and when first; it does not push others out."""
    decisions = Decisions()
    decisions.note(1, BOUND, "ns", "q", "n, card 0")
    for at in range(2, 2 + 2 * MOST_DECISIONS):
        decisions.note(at, REFUSED, "ns", "p", "full")

    last = 1 + 2 * MOST_DECISIONS
    assert decisions.newest() == (
        Decision(last, REFUSED, "ns", "p", "full", 2 * MOST_DECISIONS, 2),
        Decision(1, BOUND, "ns", "q", "n, card 0", 1, 1),
    )
    assert decisions.counts["refused"] == 2 * MOST_DECISIONS


def test_old_decisions_are_dropped_and_still_counted() -> None:
    """The kept ones are bounded, in number and in size."""
    decisions = Decisions()
    for at in range(MOST_DECISIONS + 2):
        decisions.note(at, NOT_BOUND, "ns", f"p{at}", "x" * (MOST_CHARACTERS + 1))

    assert [one.at for one in decisions.newest()] == [*reversed(range(2, MOST_DECISIONS + 2))]
    assert {len(one.detail) for one in decisions.newest()} == {MOST_CHARACTERS}
    assert decisions.counts == {"bound": 0, "refused": 0, "not bound": MOST_DECISIONS + 2, "preemption": 0}
