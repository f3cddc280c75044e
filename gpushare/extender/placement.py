"""Which card of a node a pod gets. Pure.

Best fit: the smallest free block that holds the request, so that large blocks stay whole for large pods (the rule of
the original, ``pkg/cache/nodeinfo.go``); between equal blocks the lower index. On a node in slots mode the card must
have a free slot for each container as well.
"""

from __future__ import annotations

from typing import Final

from gpushare import wire
from gpushare.errors import DoesNotFitError
from gpushare.model.device import Device
from gpushare.model.node import NodeInfo
from gpushare.model.pod import Request

# Reasons that the end of other pods can cure; with any other, evicting them would kill them for nothing.
CURABLE: Final = frozenset({wire.REASON_NO_CARD_FITS, wire.REASON_NO_SLOT})


def choose_device(node: NodeInfo, request: Request) -> Device:
    """The card for a request of 1 unit or more. Raises DoesNotFitError with the reason for the scheduler."""
    if not is_well_formed(node, request):
        raise DoesNotFitError(reason_against(node, request))
    fitting = [device for device in node.devices if device.holds(request.units, request.slots)]
    if not fitting:
        raise DoesNotFitError(reason_against(node, request))
    return min(fitting, key=lambda device: (device.free, device.index))


def is_well_formed(node: NodeInfo, request: Request) -> bool:
    """Does the request say what this node needs to be told: on one in slots mode, a slot for each container?"""
    return request.names_slots or not node.counts_slots


def holds(node: NodeInfo, request: Request) -> bool:
    """Is there one card for the request, and does the request say what the node must know?"""
    return is_well_formed(node, request) and any(device.holds(request.units, request.slots) for device in node.devices)


def reason_against(node: NodeInfo, request: Request) -> str:
    """Why no card of the node holds the request: a constant text, so that the scheduler can count equal ones."""
    if not node.devices:
        return wire.REASON_NOT_A_GPU_NODE
    if node.counts_slots and not request.names_slots:
        return wire.REASON_SLOT_MISSING
    # The largest is over healthy cards: where it is enough, one is healthy.
    if node.largest_total < request.units:
        any_healthy = any(device.healthy for device in node.devices)
        return wire.REASON_NO_CARD_LARGE_ENOUGH if any_healthy else wire.REASON_ALL_CARDS_UNHEALTHY
    return _reason_of_slots(node, request) if node.counts_slots else wire.REASON_NO_CARD_FITS


def _reason_of_slots(node: NodeInfo, request: Request) -> str:
    """Is it the memory or the slots that a healthy card of a node in slots mode lacks?"""
    large = [device for device in node.devices if device.healthy and device.total >= request.units]
    if all(device.slots < request.slots for device in large):
        return wire.REASON_TOO_MANY_CONTAINERS
    return wire.REASON_NO_SLOT if any(one.free >= request.units for one in large) else wire.REASON_NO_CARD_FITS
