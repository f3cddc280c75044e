"""Promises of gpushare.extender.core.belief: single steps, then any history of a plugin and an author."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.extender.core.belief import Belief, audited, believe, bound_to, problem_of
from gpushare.model.allocation import Allocation

UNITS = 3
CARDS = st.integers(0, 3)
MANY = Allocation(((0, 1), (2, 2)), by_container={0: ((0, 1), (2, 2))})
NAMED = st.one_of(
    st.none(), st.just(MANY), st.builds(lambda card, mark: on(card, mark), CARDS, st.one_of(st.none(), CARDS))
)


def on(card: int, mark: int | None = None) -> Allocation:
    """A pod that is written on one card."""
    return Allocation(((card, UNITS),), repair=None if mark == card else mark)


def cards(belief: Belief | None) -> list[int]:
    """Where it is booked."""
    assert belief is not None
    assert {units for _, units in belief.booked} == {UNITS}
    return [card for card, _ in belief.booked]


def after(*states: Allocation | None, started: int = 99, gap: int = 99) -> Belief:
    """The belief after these states, of which one is the first started, and one comes after a gap."""
    belief = bound_to(((0, UNITS),))
    for at, state in enumerate(states):
        found = believe(belief, state, is_started=at >= started, has_gap=at == gap)
        assert found is not None
        belief = found
    return belief


def test_the_first_valid_allocation_counts() -> None:
    """A pod without one has no card."""
    assert believe(None, None, is_started=True, has_gap=True) is None
    assert cards(believe(None, on(1, 2), is_started=False, has_gap=True)) == [1, 2]


def test_a_repair_is_followed() -> None:
    """Step by step, on both cards in between; or in one step by a pod that has no ids."""
    steps = (on(0, 1), on(1, 0), on(1))
    assert [cards(after(*steps[:count])) for count in (1, 2, 3)] == [[0, 1], [0, 1], [1]]
    assert cards(after(on(0, 1), on(1))) == [1]
    assert cards(after(on(1, 0), on(1), gap=0)) == [1]


def test_a_mark_ends_after_the_start() -> None:
    """The plugin takes it away once the room is not needed; it sets no new one."""
    assert cards(after(on(0, 1), on(1, 0), on(1, 0), on(1), started=2)) == [1]
    assert cards(after(on(0), on(0, 1), started=0)) == [0]


@pytest.mark.parametrize("state", [None, on(1), MANY], ids=["removed", "another card", "several cards"])
@pytest.mark.parametrize("started", [0, 99], ids=["started", "not started"])
def test_what_is_no_repair_changes_nothing(state: Allocation | None, started: int) -> None:
    """The pod stays on the card of its bind, and the reason names the annotation that was not believed."""
    belief = after(on(0), state, started=started)

    assert cards(belief) == [0]
    assert "stays booked on card 0" in (problem_of(belief, state, None) or "")


def test_an_end_that_was_missed_books_both() -> None:
    """After a gap, or in the first started state, the card may be a repair's; a second one is not."""
    for belief in (after(on(1), gap=0), after(on(1), started=0)):
        assert cards(belief) == [0, 1]
        assert "until that is certain" in (problem_of(belief, on(1), None) or "")
    assert cards(after(on(1), on(2), gap=1, started=1)) == [0, 2]
    assert cards(after(on(1), on(2), gap=0, started=1)) == [0, 1]


def test_the_card_of_the_binding_is_not_forgotten() -> None:
    """The author invents a whole repair; the plugin then writes back what was bound."""
    belief = after(on(0, 1), on(1, 0), on(1), on(1), on(0), started=3)

    assert cards(belief) == [0, 1]
    assert cards(audited(audited(belief))) == [0]


def test_a_dispute_ends_after_two_audits() -> None:
    """In favour of the value that stood all the time; a write in between starts the count again."""
    belief = after(on(1), started=0)
    assert cards(audited(belief)) == [0, 1]
    assert cards(audited(audited(belief))) == [1]
    again = believe(audited(belief), on(0), is_started=True, has_gap=False)
    assert again is not None
    assert cards(audited(again)) == [0, 1]
    assert cards(audited(audited(again))) == [0]
    elsewhere = believe(belief, on(3), is_started=True, has_gap=False)
    assert elsewhere is not None
    assert cards(audited(audited(elsewhere))) == [0, 1]
    assert audited(after(on(0))) == after(on(0))


def test_a_step_after_the_start_is_in_dispute() -> None:
    """A step after the start is in dispute for a pod that had its mark when the extender started."""
    belief = after(on(0, 1), on(0, 1), on(1, 0), started=1)

    assert cards(belief) == [0, 1]
    assert cards(audited(audited(belief))) == [1]


def test_what_is_believed_is_no_problem() -> None:
    """An ignored mark is one."""
    assert problem_of(after(on(0)), on(0), None) is None
    assert "names card 1" in (problem_of(after(on(0), on(0, 1), started=0), on(0, 1), None) or "")
    assert "unreadable" in (problem_of(after(on(0)), None, "unreadable") or "")


@given(st.lists(st.tuples(NAMED, st.booleans(), st.booleans()), max_size=8), NAMED, st.booleans())
def test_the_same_state_again_changes_nothing(
    states: list[tuple[Allocation | None, bool, bool]], last: Allocation | None, is_started: bool
) -> None:
    """The audit finds in its list what the watch has reported, so both must agree."""
    belief: Belief | None = None
    for named, started, gap in states:
        belief = believe(belief, named, is_started=started, has_gap=gap)
    once = believe(belief, last, is_started=is_started, has_gap=True)

    assert believe(once, last, is_started=is_started, has_gap=False) == once


@given(st.lists(st.tuples(NAMED, st.booleans()), max_size=10))
def test_a_started_pod_stays_on_its_card(states: list[tuple[Allocation | None, bool]]) -> None:
    """Whatever its author writes: the card is never free, and at most the one of the Binding is booked besides."""
    belief = after(on(0), started=0)
    for named, gap in states:
        found = believe(belief, named, is_started=True, has_gap=gap)
        assert found is not None
        belief = found

        assert cards(belief) == [0]


@given(st.lists(st.tuples(NAMED, st.booleans(), st.booleans()), max_size=10))
def test_a_pod_is_booked_on_few_cards(states: list[tuple[Allocation | None, bool, bool]]) -> None:
    """However many its author names."""
    belief = bound_to(((0, UNITS),))
    for named, started, gap in states:
        found = believe(belief, named, is_started=started, has_gap=gap)
        assert found is not None
        belief = found

        assert 1 <= len(cards(belief)) <= 4
