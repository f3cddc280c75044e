"""Promises of gpushare.extender.core.explain about the pods whose end makes room."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.extender.core.explain import (
    NO_PREEMPTION,
    STATE_DELETING,
    STATE_LINGERING,
    describe_ended,
    room_if_ended,
    why_no_preemption,
)
from gpushare.model.device import Device
from gpushare.model.eviction import Evictable
from gpushare.model.node import Booking, NodeInfo, lay_out


def on(
    uid: str, units: int, priority: int = 0, *, card: int = 0, ending: bool = False, lingering: bool = False
) -> Booking:
    """A pod on a card."""
    evictable = Evictable(priority, (), (), is_entangled=False, is_ending=ending, is_lingering=lingering)
    return Booking(uid, "ns", uid, units, ((card, units),), evictable=evictable)


def node(*bookings: Booking, slots: int = 0) -> NodeInfo:
    """Two cards of 10 units."""
    return lay_out("n", (Device(0, 10, slots=slots), Device(1, 10, slots=slots)), bookings)


def names(info: NodeInfo, wanted: int, slots: int = 1) -> list[str]:
    """The pods whose end makes room on card 0."""
    return [one.uid for one in room_if_ended(info.devices[0], info, wanted, slots)]


@pytest.mark.parametrize(
    ("bookings", "wanted", "expected"),
    [
        pytest.param((on("a", 4, 5), on("b", 4, 1)), 4, ["b"], id="lowest-priority"),
        pytest.param((on("a", 2), on("b", 6)), 5, ["b"], id="largest"),
        pytest.param((on("low", 1), on("high", 8, 9)), 9, ["high"], id="a-small-one-may-stay"),
        pytest.param((on("a", 4), on("b", 4, 9, lingering=True)), 5, ["b"], id="lingering-first"),
        pytest.param((on("a", 4), on("b", 4, 9, ending=True)), 5, ["b"], id="ending-first"),
        pytest.param((on("a", 4), on("b", 6)), 10, ["b", "a"], id="all"),
        pytest.param((on("a", 10),), 11, [], id="too-large"),
        pytest.param((on("a", 2), on("other", 9, card=1)), 8, [], id="room-already"),
        pytest.param((Booking("assumed", "ns", "assumed", 9, ((0, 9),)),), 8, [], id="not-bound-yet"),
    ],
)
def test_room_needs_the_fewest_and_least_worthy(
    bookings: tuple[Booking, ...], wanted: int, expected: list[str]
) -> None:
    """Pods that go anyway come first, then the lowest priority, then the largest; no pod is named that may stay."""
    assert names(node(*bookings), wanted) == expected


def test_slots_are_freed_too() -> None:
    """A card with free memory and no free slot names a pod for its slot."""
    assert names(node(on("a", 1), on("b", 1, 5), slots=2), 4) == ["a"]


def test_a_pod_is_described_with_its_state() -> None:
    """Units on this card, priority, and why a pod that seems to be gone still counts."""
    device = Device(0, 10)

    assert describe_ended(on("a", 4, 7), device) == {"namespace": "ns", "name": "a", "units": 4, "priority": 7}
    assert describe_ended(on("a", 4, lingering=True), device)["state"] == STATE_LINGERING
    assert describe_ended(on("a", 4, ending=True), device)["state"] == STATE_DELETING


def test_no_preemption_is_explained() -> None:
    """Only if pods of lower priority are in the way, and the node has room in sum."""
    full, half = (on("a", 10), on("b", 10, card=1)), (on("a", 6), on("b", 6, card=1))

    assert why_no_preemption(node(*half), 8, 9, [[half[0]]]) == NO_PREEMPTION
    assert why_no_preemption(node(*half), 8, 0, [[half[0]]]) == ""
    assert why_no_preemption(node(*half), 8, 9, [[]]) == ""
    assert why_no_preemption(node(*full), 8, 9, [[full[0]]]) == ""
    lingering = (on("a", 10, lingering=True), on("b", 10, card=1))
    assert why_no_preemption(node(*lingering), 8, 9, [[lingering[0]]]) == NO_PREEMPTION, "the scheduler counts 10 of 20"


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(-3, 3)), max_size=6),
    st.integers(1, 12),
)
def test_the_end_of_exactly_these_makes_room(pods: list[tuple[int, int]], wanted: int) -> None:
    """They make room, no smaller part of them does, and none are named only if all or none of the pods would do."""
    info = node(*(on(str(at), units, priority) for at, (units, priority) in enumerate(pods)))
    found = room_if_ended(info.devices[0], info, wanted, 1)
    free = info.devices[0].total - info.devices[0].used
    freed = sum(one.units for one in found)

    if not found:
        assert free >= wanted or free + sum(units for units, _ in pods) < wanted
        return
    assert free + freed >= wanted
    for part in itertools.combinations(found, len(found) - 1):
        assert free + sum(one.units for one in part) < wanted
