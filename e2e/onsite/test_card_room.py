"""Promises of e2e.onsite.card_room."""

from __future__ import annotations

import json
from typing import Any

import pytest

from e2e import spec
from e2e.builders import gpu_pod
from e2e.onsite.card_room import CardRoom, Room, room_on
from e2e.site.node_cards import UnreadableError


def node(unit: str = "GiB", mode: str = "ids", slots: int = 0, **changes: Any) -> dict[str, Any]:
    """A node with two cards of 14 and 10 units; its kubelet has 24 of them."""
    cards = [
        {"index": index, "uuid": f"GPU-{index}", "units": units, "slots": slots, "healthy": True, **changes}
        for index, units in ((0, 14), (1, 10))
    ]
    text = json.dumps({"v": 1, "mode": mode, "unit": unit, "cards": cards})
    allocatable = {spec.RESOURCE_MEMORY: "24", spec.RESOURCE_SLOT: str(2 * slots)}
    return {"metadata": {"name": "n", "annotations": {spec.NODE_CARDS: text}}, "status": {"allocatable": allocatable}}


def undescribed(units: int, count: int) -> dict[str, Any]:
    """A node of the original's device plugin."""
    amounts = {spec.RESOURCE_MEMORY: str(units), spec.RESOURCE_COUNT: str(count)}
    return {"metadata": {"name": "n"}, "status": {"capacity": amounts, "allocatable": amounts}}


def pod(*units: int, card: object = None, phase: str = "Running", where: str = "n", **more: str) -> dict[str, Any]:
    """A bound pod with a container for each of these amounts, on a card or without an annotation."""
    manifest = gpu_pod("p", *units, bound_to=where)
    manifest["metadata"]["annotations"] = ({} if card is None else {spec.POD_INDEX: str(card)}) | more
    return {**manifest, "status": {"phase": phase}}


def allocated(text: str, *units: int) -> dict[str, Any]:
    """A bound pod with the annotation of pods on several cards."""
    return pod(*units, **{spec.POD_ALLOCATION: text})


def free(*pods: dict[str, Any], on: dict[str, Any] | None = None) -> dict[int, int]:
    """The free units of each card beside these pods."""
    return {card.index: card.free.units for card in room_on(on or node(), pods).cards}


@pytest.mark.parametrize(
    ("there", "units"),
    [
        ([pod(3, card=0), pod(2, card=0, phase="Pending"), pod(9, card=1)], {0: 9, 1: 1}),
        ([allocated('{"c0": {"0": 2, "1": 1}}', 3)], {0: 12, 1: 9}),
        ([pod(3, card=0, phase="Succeeded"), pod(9, card=1, where="other")], {0: 14, 1: 10}),
        # A pod whose card is not known, or whose annotation names less than it asks for, may have any of them.
        *(([pod(4, card=card)], {0: 10, 1: 6}) for card in (None, "x", "-1", "2", "")),
        *(
            ([allocated(text, 4)], {0: 10, 1: 6})
            for text in ("", "{}", "x", '{"c0": {}}', '{"c0": {"0": 1}}', '{"c0": {"0": 9, "1": -5}}')
        ),
    ],
)
def test_booked_units_are_not_free(there: list[dict[str, Any]], units: dict[int, int]) -> None:
    """A card's room is its size less the bookings of pods that run or wait to start on the node."""
    assert free(*there) == units


def test_unhealthy_cards_have_no_room() -> None:
    """An unhealthy card is left out."""
    assert free(on=node(healthy=False)) == {}


def test_the_freest_card_comes_first() -> None:
    """A plan and a case show the largest room first."""
    room = room_on(node(), [pod(9, card=0)])
    assert room.cards == (CardRoom(1, "GPU-1", 10, Room(10)), CardRoom(0, "GPU-0", 14, Room(5)))


def test_pods_have_to_fit_together() -> None:
    """The room is a number of pods on all cards, or on one: a unit that one pod takes is not there for the next."""
    room = room_on(node(), [pod(13, card=0), pod(10, card=1)])
    assert (room.pods(1), room.pods(2)) == (1, 0)
    room = room_on(node(), [pod(9, card=0), pod(3, card=1)])
    assert (room.pods(3), room.pods(3, on_one_card=True), room.pods(5)) == (3, 2, 2)
    assert room_on(node(), [pod(20, card=0)]).pods(10) == 0


def test_what_the_kubelet_lacks_is_no_room() -> None:
    """Units that an unhealthy card has lost, and its pods still hold, are missing on the node: a scheduler counts them there."""
    short = node()
    short["status"]["allocatable"][spec.RESOURCE_MEMORY] = "14"
    assert room_on(short, [pod(9, card=1)]).pods(1) == 5


def test_each_container_takes_a_slot() -> None:
    """In slots mode a card with memory and without a slot takes no pod, and one of two containers needs two."""
    exact = node(mode="slots", unit="MiB", slots=2)
    assert room_on(exact, []).pods(1) == 4
    assert room_on(exact, []).pods(3, containers=2) == 2
    assert room_on(exact, [pod(1, 1, card=0)]).pods(1) == 2
    assert room_on(exact, [pod(1, card=0)]).pods(2, containers=2) == 1
    assert room_on(exact, [pod(1, 1, card=0), pod(1, 1)]).pods(1) == 0


def test_a_node_without_slots_takes_any_number_of_containers() -> None:
    """Only a node in slots mode counts containers."""
    assert room_on(node(), [pod(*[1] * 9, card=0)]).pods(1) == 15
    assert room_on(undescribed(30, 2), [pod(*[1] * 9, card=0)]).pods(1) == 21


def test_the_card_for_pods_is_that_which_holds_most() -> None:
    """A card with more memory, but without a slot for each, is not the one."""
    room = room_on(node(mode="slots", slots=3), [pod(1, 1, card=0)])
    assert room.cards[0].index == 0
    assert room.card_for(3).index == 1


def test_slots_are_asked_for_on_a_node_of_slots() -> None:
    """In slots mode each container asks for a slot, too."""
    assert room_on(node(mode="slots", slots=1), ()).has_slots
    assert not room_on(node(), ()).has_slots


@pytest.mark.parametrize(
    ("on", "mib"),
    [
        (node("GiB"), 1024),
        (node("MiB"), 1),
        (node("256MiB"), 256),
        # The original's plugin does not write its unit: thousands of them on a card are MiB.
        (undescribed(2 * 15, 2), 1024),
        (undescribed(2 * 192, 2), 1024),
        (undescribed(2 * 2048, 2), 1),
        (undescribed(2 * 15360, 2), 1),
    ],
)
def test_the_unit_of_the_node_is_obeyed(on: dict[str, Any], mib: int) -> None:
    """The size of a unit is that of the node's annotation, in MiB, or follows from its amount."""
    assert room_on(on, ()).mib_per_unit == mib


def test_an_unknown_unit_is_an_error() -> None:
    """A case must not guess how large a unit is."""
    with pytest.raises(UnreadableError, match="unit is not known"):
        room_on(node("furlong"), ())


def test_a_node_of_the_original_has_cards_of_equal_size() -> None:
    """Without an annotation, capacity and count give cards without UUIDs."""
    room = room_on(undescribed(30, 2), [pod(3, card=0)])

    assert room.cards == (CardRoom(1, "", 15, Room(15)), CardRoom(0, "", 15, Room(12)))
