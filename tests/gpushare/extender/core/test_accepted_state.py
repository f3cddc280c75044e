"""Promises of gpushare.extender.core.accepted_state: single steps, then any history of a plugin and an author."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpushare.extender.core.accepted_state import (
    IGNORED,
    AcceptedState,
    accept,
    audited,
    booking_of,
    bound_to,
    problem_of,
)
from gpushare.manifests import Pod
from gpushare.model.allocation import Allocation
from gpushare.model.eviction import FIXED, Evictable
from gpushare.model.node import Booking

UNITS = 3
CARDS = st.integers(0, 3)
MANY = Allocation(((1, 1), (2, 2)), by_container={0: ((1, 1), (2, 2))})
NAMED = st.one_of(
    st.none(), st.just(MANY), st.builds(lambda card, mark: on(card, mark), CARDS, st.one_of(st.none(), CARDS))
)


def on(card: int, mark: int | None = None) -> Allocation:
    """A pod that is written on one card."""
    return Allocation(((card, UNITS),), repair=None if mark == card else mark)


def cards(accepted: AcceptedState | None) -> list[int]:
    """Where it is booked."""
    assert accepted is not None
    assert {units for _, units in accepted.booked} == {UNITS}
    return [card for card, _ in accepted.booked]


def after(*states: Allocation | None, started: int = 99, gap: int = 99) -> AcceptedState:
    """The accepted state after these states, of which one is the first started, and one comes after a gap."""
    accepted = bound_to(((0, UNITS),), 0)
    for at, state in enumerate(states):
        found = accept(accepted, state, is_started=at >= started, has_gap=at == gap)
        assert found is not None
        accepted = found
    return accepted


def bound(units: str = "5", phase: str = "Pending", **annotations: str) -> Pod:
    """A pod of two containers and of priority 7, on a card of 14 units."""
    names = {"IDX": "ALIYUN_COM_GPU_MEM_IDX", "DEV": "ALIYUN_COM_GPU_MEM_DEV", "GROUP": "gpushare.aliyun.com/same-card"}
    texts = {"IDX": "1", "DEV": "14", **annotations}
    ask = [{"name": name, "resources": {"limits": {"aliyun.com/gpu-mem": units}}} for name in ("a", "b")]
    metadata = {"name": "p", "namespace": "ns", "uid": "u", "annotations": {names[key]: texts[key] for key in texts}}
    document = {"metadata": metadata, "spec": {"containers": ask, "priority": 7}, "status": {"phase": phase}}
    return msgspec.convert(document, Pod)


def test_a_booking_has_all_that_counts_of_a_pod() -> None:
    """Its card with all its units, a slot for each container, its group, and what its end would cost."""
    evictable = Evictable(7, (), (), False, False)
    found = Booking("u", "ns", "p", 10, ((1, 10),), 2, "ns/g", evictable, card_size=14)
    accepted = AcceptedState(((1, 10),), origin=1, named=((1, 10),), card_size=14)

    assert booking_of(bound(GROUP="g")) == (found, accepted, None)
    running = booking_of(bound(GROUP="g", phase="Running"), accepted, has_gap=False)
    assert running == (found, replace(accepted, is_started=True), None)
    least = bound("1")
    (least.spec.containers or []).pop()
    assert booking_of(least)[0] == Booking("u", "ns", "p", 1, ((1, 1),), 1, "", evictable, card_size=14)


def test_equal_pods_are_in_memory_once_but_for_their_identity() -> None:
    """A Deployment has thousands of them."""
    (one, of_one, _), (other, of_other, _) = booking_of(bound(GROUP="g")), booking_of(bound(GROUP="g"))

    assert of_one is of_other
    assert (one.shares is other.shares, one.evictable is other.evictable) == (True, True)


def test_cards_without_a_limit_are_kept_of_the_booked_ones() -> None:
    """Those of a container with no limit or a loose one, in the worst state, by card; no other state, and no other card."""
    pod, limits = bound(), '[["a",1,"loose",9],["b",1,"none",0],["a",0,"none",0]]'
    before = booking_of(pod)[0]
    for text, unlimited in ((limits, ((1, "none"),)), ('[["a",1,"tight",1]]', ()), ("odd", ())):
        pod.metadata.annotations = (pod.metadata.annotations or {}) | {"ALIYUN_COM_GPU_MEM_LIMITS": text}
        assert booking_of(pod)[0] == replace(before, unlimited=unlimited)


def test_an_unreadable_amount_books_nothing() -> None:
    """The reason cites the amount, and the pod cannot be evicted for a card."""
    assert booking_of(bound("1.5")) == (
        Booking("u", "ns", "p", 0, (), 0, "", FIXED, 0),
        None,
        "'1.5' is not a whole, non-negative number of units",
    )
    nothing, accepted, problem = booking_of(bound("0"), bound_to(((1, 10),), 14))
    assert (nothing, problem) == (Booking("u", "ns", "p", 0, (), 0, "", FIXED, 14), None)
    assert accepted == bound_to(((1, 10),), 14)


def test_a_change_that_is_not_believed_is_a_problem() -> None:
    """It begins with a text that the log can look for; after a gap the other card is booked as well."""
    known = bound_to(((1, 10),), 14)

    booking, _, problem = booking_of(bound(IDX="0"), known, has_gap=False)
    assert (booking.shares, (problem or "")[: len(IGNORED)]) == (((1, 10),), IGNORED)
    assert booking_of(bound(IDX="0"), known, has_gap=True)[0].shares == ((0, 10), (1, 10))
    assert booking_of(bound(), known, has_gap=False)[2] is None
    assert "IDX is 'x'" in (booking_of(bound(IDX="x"), known, has_gap=False)[2] or "")
    assert "IDX is 'x'" in (booking_of(bound(IDX="x"))[2] or "")


def test_a_belief_keeps_the_start_and_the_size() -> None:
    """A pod that has been started stays so, whatever is shown later; the size of its card is that of the Binding."""
    sized = bound_to(((0, UNITS),), 14)
    for named in (None, on(0), on(1)):
        found = accept(replace(sized, is_started=True), named, is_started=False, has_gap=False)
        assert found is not None
        assert (found.is_started, found.card_size) == (True, 14)
    assert accept(sized, None, is_started=True, has_gap=False) == replace(sized, is_started=True)
    first = accept(None, replace(on(1), device_units=14), is_started=True, has_gap=False)
    assert first == AcceptedState(((1, UNITS),), origin=1, is_started=True, named=((1, UNITS),), card_size=14)


def test_one_card_has_what_the_pod_asks_for() -> None:
    """The pod was resized in place; the amounts of several cards are the annotation's."""
    resized = accept(bound_to(((0, 2),), 0), on(0), is_started=True, has_gap=False)
    assert resized is not None
    assert resized.booked == ((0, UNITS),)
    several = accept(bound_to(MANY.shares, 0), on(1), is_started=True, has_gap=True)
    assert several is not None
    assert several.booked == MANY.shares


@pytest.mark.parametrize(
    ("states", "started", "gap", "booked", "settled"),
    [
        # The steps of a repair, and one step of a pod that has no ids.
        ([on(0, 1)], 99, 99, [0, 1], [0, 1]),
        ([on(0, 1), on(1, 0)], 99, 99, [0, 1], [0, 1]),
        ([on(0, 1), on(1, 0), on(1)], 99, 99, [1], [1]),
        ([on(0, 1), on(1)], 99, 99, [1], [1]),
        ([on(1, 0), on(1)], 99, 0, [1], [1]),
        # The plugin takes a mark away after the start once the room is not needed, and sets no new one.
        ([on(0, 1), on(1, 0), on(1, 0), on(1)], 2, 99, [1], [1]),
        ([on(0), on(0, 1)], 0, 99, [0], [0]),
        # A step after the start, of a pod that had its mark when the extender started.
        ([on(0, 1), on(0, 1), on(1, 0)], 1, 99, [0, 1], [1]),
        # No step of a repair.
        *(([on(0), state], started, 99, [0], [0]) for state in (None, on(1), MANY) for started in (0, 99)),
        ([MANY], 99, 0, [0], [0]),
        # After a gap, or in the first started state, the card may be a repair's; a second one is not.
        ([on(1)], 99, 0, [0, 1], [1]),
        ([on(1)], 0, 99, [0, 1], [1]),
        ([on(1), on(2)], 1, 1, [0, 2], [2]),
        ([on(1), on(2)], 1, 0, [0, 1], [0, 1]),
        # The author invents a whole repair; the plugin then writes back what was bound.
        ([on(0, 1), on(1, 0), on(1), on(1), on(0)], 3, 99, [0, 1], [0]),
    ],
)
def test_a_pod_moves_by_the_steps_of_a_repair_alone(
    states: list[Allocation | None], started: int, gap: int, booked: list[int], settled: list[int]
) -> None:
    """A pod is booked on both cards while either may be its own, and two audits settle that."""
    accepted = after(*states, started=started, gap=gap)

    assert cards(accepted) == booked
    assert cards(audited(audited(accepted))) == settled


def test_a_dispute_ends_after_two_audits() -> None:
    """In favour of the value that stood all the time; a write in between starts the count again."""
    accepted = after(on(1), started=0)
    assert cards(audited(accepted)) == [0, 1]
    assert cards(audited(audited(accepted))) == [1]
    again = accept(audited(accepted), on(0), is_started=True, has_gap=False)
    assert again is not None
    assert cards(audited(again)) == [0, 1]
    assert cards(audited(audited(again))) == [0]
    elsewhere = accept(accepted, on(3), is_started=True, has_gap=False)
    assert elsewhere is not None
    assert cards(audited(audited(elsewhere))) == [0, 1]
    assert audited(after(on(0))) == after(on(0))


@pytest.mark.parametrize(("mark", "left"), [(None, None), (1, None), (2, 2)])
def test_a_settled_dispute_leaves_nothing_behind(mark: int | None, left: int | None) -> None:
    """The card that was found named is the pod's, and another repair that is under way goes on."""
    named = ((1, UNITS),)
    in_conflict = AcceptedState(((0, UNITS),), mark, frozenset({1}), origin=0, named=named, card_size=14)

    assert audited(in_conflict) == replace(in_conflict, audits=1)
    assert audited(audited(in_conflict)) == AcceptedState(named, left, origin=0, named=named, card_size=14)


def test_the_end_of_a_repair_ends_the_dispute_over_its_card() -> None:
    """Another card that is in conflict stays so."""
    marked = AcceptedState(((0, UNITS),), 1, frozenset({1, 2}), origin=0, named=((0, UNITS),))
    ended = accept(marked, on(1), is_started=False, has_gap=False)

    assert ended == AcceptedState(((1, UNITS),), None, frozenset({2}), origin=0, named=((1, UNITS),))


@pytest.mark.parametrize(
    ("accepted", "named", "problem"),
    [
        (after(on(0)), on(0), None),
        (after(on(0)), None, "they name no card any more (removed); the pod stays booked on card 0"),
        (after(on(1), gap=0), None, "they name no card any more (removed); the pod stays booked on card 0 and card 1"),
        (
            after(on(0), on(0, 1), started=0),
            on(0, 1),
            "ALIYUN_COM_GPU_MEM_REPAIR names card 1, and the pod has been started; it stays booked on card 0",
        ),
        (
            after(on(1), gap=0),
            on(1),
            "they name card 1, without the marks of a repair; until that is certain card 0 and card 1 are booked",
        ),
        (
            after(MANY),
            MANY,
            "they name 1 units of card 1 and 2 units of card 2, and the pod was bound to another place; "
            "it stays booked on card 0",
        ),
        (
            after(on(1), gap=0),
            on(3),
            "they name 3 units of card 3, and the pod was bound to another place; it stays booked on card 0 and card 1",
        ),
    ],
)
def test_a_problem_says_what_is_booked_instead(
    accepted: AcceptedState, named: Allocation | None, problem: str | None
) -> None:
    """For a person: what the annotations say now, and where the pod stays. A change that is believed is no problem."""
    assert problem_of(accepted, named, None) == problem
    assert "(unreadable)" in (problem_of(accepted, None, "unreadable") or "")


@given(st.lists(st.tuples(NAMED, st.booleans(), st.booleans()), max_size=8), NAMED, st.booleans())
def test_the_same_state_again_changes_nothing(
    states: list[tuple[Allocation | None, bool, bool]], last: Allocation | None, is_started: bool
) -> None:
    """The audit finds in its list what the watch has reported, so both must agree."""
    accepted: AcceptedState | None = None
    for named, started, gap in states:
        accepted = accept(accepted, named, is_started=started, has_gap=gap)
    once = accept(accepted, last, is_started=is_started, has_gap=True)

    assert accept(once, last, is_started=is_started, has_gap=False) == once


@given(st.lists(st.tuples(st.integers(0, 6), st.tuples(st.booleans(), st.booleans(), st.booleans())), max_size=6))
def test_a_repair_is_booked_whatever_was_missed(repairs: list[tuple[int, tuple[bool, bool, bool]]]) -> None:
    """A plugin moves a pod from card to card: the one that it is written on is booked, and its mark, whichever steps were seen."""
    accepted, before, has_gap = bound_to(((0, UNITS),), 0), 0, False
    for card, seen in repairs:
        for step, is_seen in zip((on(before, card), on(card, before), on(card)), seen, strict=True):
            if is_seen:
                found = accept(accepted, step, is_started=False, has_gap=has_gap)
                assert found is not None
                accepted = found
                assert {card for card in (step.index, step.repair) if card is not None} <= set(cards(accepted))
            has_gap = not is_seen
        before = card


@given(st.lists(st.tuples(NAMED, st.booleans()), max_size=10))
def test_a_started_pod_stays_on_its_card(states: list[tuple[Allocation | None, bool]]) -> None:
    """Whatever its author writes: the card is never free, and at most the one of the Binding is booked besides."""
    accepted = after(on(0), started=0)
    for named, gap in states:
        found = accept(accepted, named, is_started=True, has_gap=gap)
        assert found is not None
        accepted = found

        assert cards(accepted) == [0]
