"""Promises of e2e.onsite.card_room."""

from __future__ import annotations

import json
from typing import Any

import pytest

from e2e import spec
from e2e.builders import gpu_pod
from e2e.onsite.card_room import CardRoom, room_on
from e2e.site.node_cards import UnreadableError


def node(unit: str = "GiB", mode: str = "ids", **changes: Any) -> dict[str, Any]:
    """A node with two cards of 14 and 10 units."""
    cards = [
        {"index": index, "uuid": f"GPU-{index}", "units": units, "slots": 0, "healthy": True, **changes}
        for index, units in ((0, 14), (1, 10))
    ]
    text = json.dumps({"v": 1, "mode": mode, "unit": unit, "cards": cards})
    return {"metadata": {"name": "n", "annotations": {spec.NODE_CARDS: text}}, "status": {}}


def pod(units: int, card: object = None, phase: str = "Running", where: str = "n") -> dict[str, Any]:
    """A bound pod that books these units, on a card or without an annotation."""
    manifest = gpu_pod("p", units, bound_to=where)
    manifest["metadata"]["annotations"] = {} if card is None else {spec.POD_INDEX: str(card)}
    return {**manifest, "status": {"phase": phase}}


def free(*pods: dict[str, Any], on: dict[str, Any] | None = None) -> dict[int, int]:
    """The free units of each card beside these pods."""
    return {card.index: card.free for card in room_on(on or node(), pods).cards}


def test_booked_units_are_not_free() -> None:
    """A card's room is its size less the bookings of pods that run or wait to start on the node."""
    assert free(pod(3, 0), pod(2, 0, phase="Pending"), pod(9, 1)) == {0: 9, 1: 1}


def test_pods_that_ended_or_are_elsewhere_take_no_room() -> None:
    """Only pods of the node that have not ended count."""
    assert free(pod(3, 0, phase="Succeeded"), pod(9, 1, where="other")) == {0: 14, 1: 10}


@pytest.mark.parametrize("card", [None, "x"])
def test_a_pod_without_a_known_card_counts_on_each(card: object) -> None:
    """A pod that names no card, or none that can be read, may have any of them."""
    assert free(pod(4, card)) == {0: 10, 1: 6}


def test_sick_cards_have_no_room() -> None:
    """A sick card is left out."""
    assert free(on=node(healthy=False)) == {}


def test_the_freest_card_comes_first() -> None:
    """A case may take the first card that it finds."""
    room = room_on(node(), [pod(9, 0)])
    assert room.cards == (CardRoom(1, "GPU-1", 10, 10), CardRoom(0, "GPU-0", 14, 5))
    assert room.freest == 10


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
    capacity = {spec.RESOURCE_MEMORY: "30", spec.RESOURCE_COUNT: "2"}
    original = {"metadata": {"name": "n"}, "status": {"capacity": capacity}}

    assert room_on(original, [pod(3, 0)]).cards == (CardRoom(1, "", 15, 15), CardRoom(0, "", 15, 12))


def test_slots_are_asked_for_on_a_node_of_slots() -> None:
    """In slots mode each container asks for a slot, too."""
    assert room_on(node(mode="slots"), ()).has_slots
    assert not room_on(node(), ()).has_slots
