"""Which pods would have to end so that a card has room. Pure.

It is for people who read an explanation, and asks for less than ``preempt``: one card, any priority, no budgets. No pod can be left
out of an answer, which is found in one pass over the pods of the card.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from gpushare.model.device import Device
from gpushare.model.node import Booking, NodeInfo, units_on

STATE_LINGERING: Final = (
    "its phase says that it has ended, but its status still shows running containers: "
    "delete the pod, or boot its node again"
)
STATE_DELETING: Final = "it is being deleted: its containers have not ended yet"
# kube-scheduler counts the memory of a node in sum and proposes no victims if that is enough (kubernetes/kubernetes#139270).
NO_PREEMPTION: Final = (
    "the node has room in sum, so kube-scheduler proposes no pods for preemption here; "
    "end the pods of one card in roomIfEnded by hand"
)


def room_if_ended(device: Device, node: NodeInfo, wanted: int, slots: int) -> Sequence[Booking]:
    """Pods of the card whose end leaves ``wanted`` units and ``slots`` free there; none if no end of pods does.

    Those that linger or are being deleted come first, then those of the lowest priority, then the largest.
    """
    chosen: list[Booking] = []
    for booking in sorted(_endable(node, device), key=lambda one: _worth(one, device)):
        if _has_room(device, node, chosen, wanted, slots):
            break
        chosen.append(booking)
    if not _has_room(device, node, chosen, wanted, slots):
        return ()
    for booking in reversed(tuple(chosen)):
        others = [one for one in chosen if one is not booking]
        if _has_room(device, node, others, wanted, slots):
            chosen = others
    return chosen


def describe_ended(booking: Booking, device: Device) -> dict[str, Any]:
    """One such pod."""
    evictable = booking.evictable
    assert evictable is not None
    state = STATE_LINGERING if evictable.is_lingering else STATE_DELETING if evictable.is_ending else ""
    described = {
        "namespace": booking.namespace,
        "name": booking.name,
        "units": units_on(booking, device.index),
        "priority": evictable.priority,
    }
    return described | ({"state": state} if state else {})


def why_no_preemption(node: NodeInfo, units: int, priority: int, on_cards: Iterable[Sequence[Booking]]) -> str:
    """Why kube-scheduler does not end pods of lower priority for a pod of this priority, though it would help; "" if it may.

    ``on_cards`` are the pods whose end makes room on one card each.
    """
    helps = any(pods and all(_priority(one) < priority for one in pods) for pods in on_cards)
    counted = sum(one.units for one in node.bookings if one.evictable is None or not one.evictable.is_lingering)
    return NO_PREEMPTION if helps and node.total - counted >= units else ""


def _endable(node: NodeInfo, device: Device) -> list[Booking]:
    return [one for one in node.bookings if one.evictable is not None and units_on(one, device.index)]


def _worth(booking: Booking, device: Device) -> tuple[bool, bool, int, int, str]:
    evictable = booking.evictable
    assert evictable is not None
    goes_anyway = evictable.is_ending or evictable.is_lingering
    return (
        not goes_anyway,
        not evictable.is_lingering,
        evictable.priority,
        -units_on(booking, device.index),
        booking.uid,
    )


def _priority(booking: Booking) -> int:
    assert booking.evictable is not None
    return booking.evictable.priority


def _has_room(device: Device, node: NodeInfo, ended: Iterable[Booking], wanted: int, slots: int) -> bool:
    gone = tuple(ended)
    free = device.total - device.used + sum(units_on(one, device.index) for one in gone)
    free_slots = device.slots - device.slots_used + sum(one.slots for one in gone)
    return free >= wanted and (not node.counts_slots or free_slots >= slots)
