"""For people: why a pod has no card, node by node and card by card, and which pod has which. Pure.

A full card has with it which pods would have to end so that it has room. That is for people, and asks for less than ``preempt``:
one card, any priority, no budgets. No pod can be left out of such an answer, which is found in one pass over the pods of the card.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gpushare import wire
from gpushare.model.eviction import FIXED
from gpushare.model.node import Booking, Device, NodeInfo, units_on
from gpushare.model.placement import Question, Snapshot, reason_against
from gpushare.model.pod import Request

# Nodes that are described; one that has room, or nearly, comes first.
MOST_NODES: Final = 200

CARD_UNHEALTHY: Final = "unhealthy"
CARD_NOT_WISHED: Final = "not one that the pod wishes for"
CARD_OF_OTHERS: Final = "not where the pods are that it shares a GPU with"
CARD_NOT_WHOLE: Final = "not exactly as large as the request"
CARD_TOO_SMALL: Final = "too small"
CARD_FULL: Final = "too full"
CARD_WITHOUT_SLOT: Final = "no free slot"
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

# Which of a scheduler's checks an explanation leaves out.
JUDGED: Final = "cards only: nodeSelector, affinity, taints and other resources are left to the scheduler"


def explain(
    asked: Question, snapshot: Snapshot, last: Mapping[str, str], names: Iterable[str], priority: int = 0
) -> dict[str, Any]:
    """The answers of ``names`` now to a pod of this priority, with their cards.

    ``last`` is what they answered before, if that is kept ("": it fits).
    """
    nodes = {name: snapshot.nodes.get(name) for name in names}
    found = {
        name: wire.REASON_UNKNOWN_NODE if node is None else reason_against(node, asked) for name, node in nodes.items()
    }
    free = {name: -1 if node is None else node.largest_free for name, node in nodes.items()}
    described = sorted(found, key=lambda name: (found[name] != "", -free[name], name))
    return {
        "judged": JUDGED,
        "request": describe_request(asked) | {"priority": priority},
        "fits": [name for name in described if not found[name]][:MOST_NODES],
        "reasons": dict(Counter(reason for reason in found.values() if reason)),
        "nodes": [
            _node(name, found[name], last.get(name), snapshot, asked, priority) for name in described[:MOST_NODES]
        ],
        "nodesLeftOut": max(len(described) - MOST_NODES, 0),
    }


def describe_request(asked: Question) -> dict[str, Any]:
    """The request of a pod, by the names of its annotations."""
    request, wishes = asked.request, asked.request.wishes
    texts: dict[str, Any] = {
        wire.WISH_MODEL: [model.strip() for model in wishes.models],
        wire.WISH_MODEL_NOT: [model.strip() for model in wishes.banned_models],
        wire.WISH_UUID: sorted(wishes.uuids),
        wire.WISH_UUID_NOT: sorted(wishes.banned_uuids),
        wire.WISH_SAME_CARD: wishes.group.partition("/")[2],
        wire.WISH_SPLIT: wire.WHOLE_CARD if wishes.whole else list(wishes.split),
    }
    return {
        "units": request.units,
        "slots": request.slots,
        "policy": asked.policy,
        "wishes": {name: text for name, text in texts.items() if text},
    }


def _node(
    name: str, now: str, before: str | None, snapshot: Snapshot, asked: Question, priority: int
) -> dict[str, Any]:
    node = snapshot.nodes.get(name)
    described: dict[str, Any] = {"name": name, "fits": not now, "reason": now}
    if before is not None:
        described["lastReason"] = before
    if node is None:
        return described | {"cards": []}
    in_the_way = {device.index: _in_the_way(device, node, asked) for device in node.devices if now}
    if note := why_no_preemption(node, asked.request.units, priority, in_the_way.values()):
        described["preemption"] = note
    cards = [_card(device, node, asked, in_the_way.get(device.index, ())) for device in node.devices]
    return described | {"cards": cards}


def _in_the_way(device: Device, node: NodeInfo, asked: Question) -> Sequence[Booking]:
    if card_reason(device, node, asked) not in (CARD_FULL, CARD_WITHOUT_SLOT):
        return ()
    return room_if_ended(device, node, wanted_of(asked.request), asked.request.slots)


def _card(device: Device, node: NodeInfo, asked: Question, in_the_way: Sequence[Booking]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "id": device.index,
        "uuid": device.uuid,
        "model": device.model,
        "total": device.total,
        "free": device.free,
        "wanted": wanted_of(asked.request),
        "reason": card_reason(device, node, asked),
    }
    if node.counts_slots:
        described |= {"slots": device.slots, "freeSlots": device.free_slots}
    if in_the_way:
        described["roomIfEnded"] = [describe_ended(one, device) for one in in_the_way]
    return described


def wanted_of(request: Request) -> int:
    """The least that a card must have free to be of use."""
    return request.wishes.split[-1] if request.wishes.split else request.units


def card_reason(device: Device, node: NodeInfo, asked: Question) -> str:
    """Why this card does not hold the pod; "" if it does (for a split: its smallest part)."""
    if node.published.refusal:
        return node.published.refusal
    request, wishes = asked.request, asked.request.wishes
    wanted = wanted_of(request)
    checks: Mapping[str, bool] = {
        CARD_UNHEALTHY: not device.healthy,
        CARD_NOT_WISHED: not asked.wishes_for(device),
        CARD_OF_OTHERS: bool(asked.group_cards) and device.index not in asked.group_cards.get(node.name, ()),
        CARD_NOT_WHOLE: wishes.whole and device.total != wanted,
        CARD_TOO_SMALL: device.total < wanted,
        CARD_FULL: device.free < wanted,
        CARD_WITHOUT_SLOT: node.counts_slots and device.free_slots < request.slots,
    }
    return next((reason for reason, is_so in checks.items() if is_so), "")


def room_if_ended(device: Device, node: NodeInfo, wanted: int, slots: int) -> Sequence[Booking]:
    """The pods of the card to end so that ``wanted`` units and ``slots`` are free there; none if that does not help.

    Those that linger or are being deleted come first, then those of the lowest priority, then the largest.
    """
    chosen: list[Booking] = []
    endable = [one for one in node.bookings if one.evictable is not FIXED and units_on(one, device.index)]
    for booking in sorted(endable, key=lambda one: _worth(one, device)):
        if _card_has_room(device, node, chosen, wanted, slots):
            break
        chosen.append(booking)
    if not _card_has_room(device, node, chosen, wanted, slots):
        return ()
    for booking in reversed(tuple(chosen)):
        others = [one for one in chosen if one is not booking]
        if _card_has_room(device, node, others, wanted, slots):
            chosen = others
    return chosen


def describe_ended(booking: Booking, device: Device) -> dict[str, Any]:
    """One such pod."""
    evictable = booking.evictable
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
    helps = any(pods and all(one.evictable.priority < priority for one in pods) for pods in on_cards)
    counted = sum(one.units for one in node.bookings if not one.evictable.is_lingering)
    return NO_PREEMPTION if helps and node.total - counted >= units else ""


def _worth(booking: Booking, device: Device) -> tuple[bool, bool, int, int, str]:
    evictable = booking.evictable
    goes_anyway = evictable.is_ending or evictable.is_lingering
    return (
        not goes_anyway,
        not evictable.is_lingering,
        evictable.priority,
        -units_on(booking, device.index),
        booking.uid,
    )


def _card_has_room(device: Device, node: NodeInfo, ended: Iterable[Booking], wanted: int, slots: int) -> bool:
    gone = tuple(ended)
    free = device.total - device.used + sum(units_on(one, device.index) for one in gone)
    free_slots = device.slots - device.slots_used + sum(one.slots for one in gone)
    return free >= wanted and (not node.counts_slots or free_slots >= slots)


def nodes_with_cards(snapshot: Snapshot) -> list[NodeInfo]:
    """The nodes of ``/gpushare-scheduler/inspect``: those that are described, by name.

    They are of the moment of the call, whatever happens to the book afterwards.
    """
    return [node for _, node in sorted(snapshot.nodes.items()) if node.devices]


def inspect_node(snapshot: Snapshot, name: str) -> dict[str, Any]:
    """One node; ``error`` is there if it is not known (the original closes the connection, defect D19)."""
    node = snapshot.nodes.get(name)
    if node is None:
        return {"nodes": [], "error": f"node {name} is not known to the extender"}
    return {"nodes": [describe_node(node)]}


def describe_node(node: NodeInfo) -> dict[str, Any]:
    """One node: its cards, and the pods of each, by name. Keys and nesting are the original's.

    A pod is listed from the moment it is booked; the original lists it only once its copy of the pod runs.
    """
    bookings = sorted(node.bookings, key=lambda one: (one.namespace, one.name))
    return {
        "name": node.name,
        "totalGPU": sum(device.total for device in node.devices),
        "usedGPU": sum(device.used for device in node.devices),
        "devs": [
            {
                "id": device.index,
                "totalGPU": device.total,
                "usedGPU": device.used,
                "pods": [
                    {
                        "name": booking.name,
                        "namespace": booking.namespace,
                        "usedGPU": units_on(booking, device.index),
                    }
                    for booking in bookings
                    if units_on(booking, device.index)
                ],
            }
            for device in node.devices
        ],
    }
