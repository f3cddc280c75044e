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


def test_booked_units_are_not_free() -> None:
    """A card's room is its size less the bookings of pods that run or wait to start on the node."""
    assert free(pod(3, card=0), pod(2, card=0, phase="Pending"), pod(9, card=1)) == {0: 9, 1: 1}
    assert free(allocated('{"c0": {"0": 2, "1": 1}}', 3)) == {0: 12, 1: 9}


def test_pods_that_ended_or_are_elsewhere_take_no_room() -> None:
    """Only pods of the node that have not ended count."""
    assert free(pod(3, card=0, phase="Succeeded"), pod(9, card=1, where="other")) == {0: 14, 1: 10}


@pytest.mark.parametrize("card", [None, "x", "-1", "2", ""])
def test_a_pod_without_a_known_card_counts_on_each(card: object) -> None:
    """A pod that names no card, none of the node's, or none that can be read, may have any of them."""
    assert free(pod(4, card=card)) == {0: 10, 1: 6}


@pytest.mark.parametrize("text", ["", "{}", "x", '{"c0": {}}', '{"c0": {"0": 1}}', '{"c0": {"0": 9, "1": -5}}'])
def test_an_allocation_without_the_request_counts_on_each(text: str) -> None:
    """If the annotation of a pod on several cards names less than the pod asks for, any card may have the rest."""
    assert free(allocated(text, 4)) == {0: 10, 1: 6}


def test_sick_cards_have_no_room() -> None:
    """A sick card is left out."""
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
    """Units that a sick card has lost, and its pods still hold, are missing on the node: a scheduler counts them there."""
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


@pytest.mark.parametrize(("unit", "mib"), [("GiB", 1024), ("MiB", 1), ("256MiB", 256)])
def test_the_unit_of_the_node_is_obeyed(unit: str, mib: int) -> None:
    """The size of a unit is that of the node's annotation, in MiB."""
    assert room_on(node(unit), ()).mib_per_unit == mib


def test_an_unknown_unit_is_an_error() -> None:
    """A case must not guess how large a unit is."""
    with pytest.raises(UnreadableError, match="unit is not known"):
        room_on(node("furlong"), ())


def test_a_node_of_the_original_has_cards_of_equal_size() -> None:
    """Without an annotation, capacity and count give cards without UUIDs."""
    room = room_on(undescribed(30, 2), [pod(3, card=0)])

    assert room.cards == (CardRoom(1, "", 15, Room(15)), CardRoom(0, "", 15, Room(12)))


@pytest.mark.parametrize(("units", "mib"), [(2 * 15, 1024), (2 * 192, 1024), (2 * 2048, 1), (2 * 15360, 1)])
def test_the_unit_of_the_original_follows_from_its_amount(units: int, mib: int) -> None:
    """The original's plugin does not write its unit: thousands of them on a card are MiB."""
    assert room_on(undescribed(units, 2), ()).mib_per_unit == mib
