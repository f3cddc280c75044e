"""The forms of the report that the original does not have: a line for each card, and names of nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from gpushare.cli.answer_forms import table
from gpushare.kubectl_inspect.core.card_report import NodeReport
from gpushare.model.node import Device, units_on

_HEADER = ("NODE", "IPADDRESS", "CARD", "MODEL", "UUID", "ALLOCATED", "TOTAL", "UNIT", "HEALTH", "PODS")


def wide(nodes: Iterable[NodeReport], *, headers: bool = True) -> str:
    """Each card with its model, its health and how many pods it has; of a node without cards one line."""
    return table(_HEADER, (row for node in nodes for row in _rows(node)), headers=headers)


def _rows(node: NodeReport) -> Iterable[list[object]]:
    for device in node.info.devices:
        pods = sum(1 for one in node.info.bookings if units_on(one, device.index))
        yield [
            node.name, node.address, device.index, device.model or "-", device.uuid or "-", device.used, node.size_of(device),
            node.unit, _health(device, node), pods,
        ]  # fmt: skip
    if node.info.unplaced:
        yield [node.name, node.address, "-", "-", "-", node.info.unplaced, "-", node.unit or "-", "pending", "-"]


def _health(device: Device, node: NodeReport) -> str:
    if device.used > node.size_of(device):
        return "over-booked"
    sick = node.sick.get(device.index)
    if device.healthy:
        return "ok"
    return (sick.reason if sick else node.info.refusal) or "sick"


def names(nodes: Iterable[NodeReport]) -> str:
    """As kubectl takes them."""
    return "".join(f"node/{node.name}\n" for node in nodes)
