"""Promises of e2e.onsite.card_room."""

from __future__ import annotations

import json
from typing import Any

import pytest

from e2e import spec
from e2e.builders import gpu_pod
from e2e.onsite.card_room import room_on


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
        # A pod may have any of them if its card is not known, or if its annotation names less than it asks for.
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


_SLOTS = node(mode="slots", unit="MiB", slots=2)
# Units that an unhealthy card has lost, and its pods still hold, are missing on the node.
_SHORT = node()
_SHORT["status"]["allocatable"][spec.RESOURCE_MEMORY] = "14"


@pytest.mark.parametrize(
    ("on", "there", "asked", "most"),
    [
        # A unit that one pod takes is not there for the next.
        (node(), [pod(13, card=0), pod(10, card=1)], {"units": 1}, 1),
        (node(), [pod(13, card=0), pod(10, card=1)], {"units": 2}, 0),
        (node(), [pod(9, card=0), pod(3, card=1)], {"units": 3}, 3),
        (node(), [pod(9, card=0), pod(3, card=1)], {"units": 3, "on_one_card": True}, 2),
        (node(), [pod(20, card=0)], {"units": 10}, 0),
        (_SHORT, [pod(9, card=1)], {"units": 1}, 5),
        # In slots mode each container takes a slot, too.
        (_SLOTS, [], {"units": 1}, 4),
        (_SLOTS, [], {"units": 3, "containers": 2}, 2),
        (_SLOTS, [pod(1, 1, card=0)], {"units": 1}, 2),
        (_SLOTS, [pod(1, 1, card=0), pod(1, 1)], {"units": 1}, 0),
        # In the others their number does not matter.
        (node(), [pod(*[1] * 9, card=0)], {"units": 1}, 15),
        (undescribed(30, 2), [pod(*[1] * 9, card=0)], {"units": 1}, 21),
    ],
)
def test_pods_have_to_fit_together(on: Any, there: list[Any], asked: dict[str, Any], most: int) -> None:
    """The room is a number of pods on all cards, or on one, and no more than a scheduler sees on the node."""
    assert room_on(on, there).pods(**asked) == most


@pytest.mark.parametrize(
    ("on", "mib"),
    [
        (node("GiB"), 1024),
        (node("MiB"), 1),
        (node("256MiB"), 256),
        # The original's plugin does not write its unit: thousands of them on a card are MiB.
        (undescribed(2 * 15, 2), 1024),
        (undescribed(2 * 15360, 2), 1),
    ],
)
def test_the_unit_of_the_node_is_obeyed(on: dict[str, Any], mib: int) -> None:
    """The size of a unit is that of the node's annotation, in MiB, or follows from its amount."""
    assert room_on(on, ()).mib_per_unit == mib
