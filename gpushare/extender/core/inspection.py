"""The answer of ``/gpushare-scheduler/inspect``: which pod has which card. Pure.

Keys and nesting are the original's (``data/upstream/extender/filter.json``). Ours sorts nodes and pods by name, and
lists a pod from the moment it is booked; the original lists it only once its copy of the pod runs.
"""

from __future__ import annotations

from typing import Any

from gpushare.model.node import NodeInfo, units_on
from gpushare.model.placement import Snapshot


def nodes_with_cards(snapshot: Snapshot) -> list[NodeInfo]:
    """Those that are described, by name. They are of the moment of the call, whatever happens to the book afterwards."""
    return [node for _, node in sorted(snapshot.nodes.items()) if node.devices]


def inspect_node(snapshot: Snapshot, name: str) -> dict[str, Any]:
    """One node; ``error`` is there if it is not known (the original closes the connection, defect D19)."""
    node = snapshot.nodes.get(name)
    if node is None:
        return {"nodes": [], "error": f"node {name} is not known to the extender"}
    return {"nodes": [describe_node(node)]}


def describe_node(node: NodeInfo) -> dict[str, Any]:
    """One node: its cards, and the pods of each."""
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
