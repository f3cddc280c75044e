"""Which card of a node a pod gets. Pure.

Best fit: the smallest free block that holds the request, so that large blocks stay whole for large pods (the rule of
the original, ``pkg/cache/nodeinfo.go``); between equal blocks the lower index.
"""

from __future__ import annotations

from gpushare import wire
from gpushare.errors import DoesNotFitError
from gpushare.model.device import Device
from gpushare.model.node import NodeInfo


def choose_device(node: NodeInfo, request: int) -> Device:
    """The card for ``request`` units (1 or more). Raises DoesNotFitError with the reason for the scheduler."""
    fitting = [device for device in node.devices if device.free >= request]
    if not fitting:
        raise DoesNotFitError(reason_against(node, request))
    return min(fitting, key=lambda device: (device.free, device.index))


def reason_against(node: NodeInfo, request: int) -> str:
    """Why no card of the node holds the request: a constant text, so that the scheduler can count equal ones."""
    if not node.devices:
        return wire.REASON_NOT_A_GPU_NODE
    if not any(device.healthy for device in node.devices):
        return wire.REASON_ALL_CARDS_UNHEALTHY
    if node.largest_total < request:
        return wire.REASON_NO_CARD_LARGE_ENOUGH
    return wire.REASON_NO_CARD_FITS
