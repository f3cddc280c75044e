"""The answer of ``top``, as a document for programs: what pods booked, and what they really hold. Pure.

Only the device plugin of a node knows what its pods hold, and publishes it if it runs with ``--usage``. A use that is not known is
None in the document, and never 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from gpushare.errors import InvalidQuantityError
from gpushare.kubectl_gpushare.core.explanation import API_VERSION
from gpushare.kubectl_inspect.core.card_report import NodeReport
from gpushare.model.node import units_on
from gpushare.model.quantity import MemoryUnit

_USED: Final = "gpushare_pod_used_bytes"
_MIB: Final = 1024**2

# Bytes, by uid of the pod and index of the card.
Use = Mapping[tuple[str, int], int]


def use_in(metrics: str) -> dict[tuple[str, int], int] | None:
    """The use that a plugin publishes; None if it publishes none, or the text is not that of a plugin."""
    try:
        families = list(text_string_to_metric_families(metrics))
        found = [family for family in families if family.name == _USED]
        samples = [sample for family in found for sample in family.samples]
        uses = {(one.labels["uid"], int(one.labels["card"])): int(one.value) for one in samples}
    except (ValueError, KeyError, OverflowError):
        return None
    return uses if found else None


def top(
    reports: Iterable[NodeReport], uses: Mapping[str, Use], conditions: Mapping[str, str], hidden: Sequence[str]
) -> dict[str, Any]:
    """``uses`` and ``conditions``, the status of GPUShareHealthy, are by node, for nodes with a plugin that publishes them."""
    nodes, pods = list[dict[str, Any]](), list[dict[str, Any]]()
    for node in reports:
        of_node = list(_pods(node, uses.get(node.name)))
        pods += of_node
        known = [pod["used"] for pod in of_node if pod["used"] is not None]
        nodes.append(
            {
                "name": node.name,
                "total": _bytes(node.total, node),
                "booked": _bytes(node.used, node),
                "used": sum(known) if node.name in uses else None,
                "pods": len({pod["uid"] for pod in of_node}),
                "healthy": conditions.get(node.name),
            }
        )
    return {"apiVersion": API_VERSION, "kind": "MemoryUse", "nodes": nodes, "pods": pods, "hidden": list(hidden)}


def _pods(node: NodeReport, use: Use | None) -> Iterable[dict[str, Any]]:
    """One for each card of each pod.

    The node names those that its plugin has reported for overuse, with their use of at most a minute ago. It counts if the plugin
    cannot be asked.
    """
    reported = {(one.uid, one.index): one.used * _MIB for one in node.info.published.overuse}
    for booking in node.info.bookings:
        for device in node.info.devices:
            if units := units_on(booking, device.index):
                on = booking.uid, device.index
                limit = node.limits.get(on)
                booked, used = _bytes(units, node), (reported if use is None else use).get(on)
                yield {
                    "namespace": booking.namespace,
                    "name": booking.name,
                    "uid": booking.uid,
                    "node": node.name,
                    "card": device.index,
                    "booked": booked,
                    "limit": limit and limit.mib * _MIB,
                    "limitState": limit.state if limit else "",
                    "used": used,
                    "overuse": None if booked is None or used is None or on not in reported else max(used - booked, 0),
                }


def _bytes(units: int, node: NodeReport) -> int | None:
    """None if the node's unit is not known."""
    try:
        return units * MemoryUnit.parse(node.unit).mib * _MIB
    except InvalidQuantityError:
        return None
