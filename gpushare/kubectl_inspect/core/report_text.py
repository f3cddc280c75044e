"""The text of the report: the original's two tables, a line for each card, names, or a document; and which nodes are shown. Pure.

The tables are the original's to the byte, blanks at line ends too. Columns are separated as by Go's text/tabwriter with two blanks
of padding: a cell is text that a tab ends; a column is a run of lines that have such a cell at the same place; what follows the
last tab of a line belongs to no column. ``e2e/inspect`` holds what the original printed. Ours differs in two
things. Nodes and pods come sorted by name; the original takes them in random order. Units on a card that the node does not have
are pending in both tables.

In the document amounts are in the ``unit`` of their node; a field that is not known is an empty text. New fields may come, and none
changes its meaning without a new ``apiVersion``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from msgspec.structs import replace

from gpushare.cli.answer_forms import document, printable, table
from gpushare.kubectl_inspect.core.card_report import NodeReport
from gpushare.model.limits import STATES
from gpushare.model.node import Booking, Device, units_on

API_VERSION: Final = "inspect.gpushare.aliyun.com/v1"
KIND: Final = "GPUShareInspection"
# The fields by which nodes can be sorted: those of a node that are one text or number.
FIELDS: Final[Mapping[str, Callable[[NodeReport], str | int]]] = {
    "name": lambda node: node.name,
    "address": lambda node: node.address,
    "unit": lambda node: node.unit,
    "total": lambda node: node.total,
    "allocated": lambda node: node.used,
    "pending": lambda node: node.info.unplaced,
}

_WIDE: Final = ("NODE", "IPADDRESS", "CARD", "MODEL", "UUID", "ALLOCATED", "TOTAL", "UNIT", "HEALTH", "PODS", "LIMIT")
_PADDING: Final = 2
# Upstream quirk: lines of dashes are as long as text that is not aligned yet, and a bit.
_DASHES_OF_SUMMARY: Final = 20
_DASHES_OF_DETAILS: Final = 10


def render(form: str, nodes: Iterable[NodeReport], problems: Sequence[str], **more: Any) -> str:
    """The text of the document: nodes with their cards and pods, then the lines of stderr.

    ``form`` is JSON or YAML; ``more`` are further fields.
    """
    head = {"apiVersion": API_VERSION, "kind": KIND, "nodes": [_node_of(one) for one in nodes]}
    return document(form, head | {"warnings": list(problems), **more})


def _node_of(node: NodeReport) -> dict[str, Any]:
    return {name: value_of(node) for name, value_of in FIELDS.items()} | {
        "cards": [_card(device, node) for device in node.info.devices],
        "pods": [_pod(booking, node) for booking in node.info.bookings],
    }


def _card(device: Device, node: NodeReport) -> dict[str, Any]:
    unhealthy = node.unhealthy.get(device.index)
    described = {
        "index": device.index,
        "uuid": device.uuid,
        "model": device.model,
        "total": node.size_of(device),
        "allocated": device.used,
        "free": max(node.size_of(device) - device.used, 0) if device.healthy else 0,
        "healthy": device.healthy,
        "reason": unhealthy.reason if unhealthy else node.info.published.refusal or "",
    }
    return described | ({"slots": device.slots, "slotsUsed": device.slots_used} if node.info.counts_slots else {})


def _pod(booking: Booking, node: NodeReport) -> dict[str, Any]:
    on_cards = [(device.index, units_on(booking, device.index)) for device in node.info.devices]
    return {
        "namespace": booking.namespace,
        "name": booking.name,
        "uid": booking.uid,
        "allocated": booking.units,
        "pending": max(booking.units - sum(units for _, units in on_cards), 0),
        "cards": [
            {"index": index, "allocated": units, **_limit(booking, index, node)} for index, units in on_cards if units
        ],
    }


def _limit(booking: Booking, index: int, node: NodeReport) -> dict[str, Any]:
    """The limit that the driver enforces, in MiB, if the device plugin of the node publishes limits."""
    limit = node.limits.get((booking.uid, index))
    return {} if limit is None else {"limit": {"state": limit.state, "mib": limit.mib}}


def field_of(expression: str) -> str | None:
    """The field that ``--sort-by`` names, written as for kubectl (``{.total}``, ``.total`` or ``total``), or None."""
    name = expression.strip().removeprefix("{").removesuffix("}").strip().removeprefix(".")
    return name if name in FIELDS else None


def select(nodes: Sequence[NodeReport], namespace: str | None, sort_by: str) -> tuple[NodeReport, ...]:
    """The nodes on which pods of the namespace are, each with these pods alone; its sums stay those of the whole node.

    Without a namespace all nodes with all pods. Nodes of equal value stay in the order of their names.
    """
    shown = nodes if namespace is None else [_with_pods_of(node, namespace) for node in nodes]
    return tuple(sorted((one for one in shown if namespace is None or one.info.bookings), key=FIELDS[sort_by]))


def _with_pods_of(node: NodeReport, namespace: str) -> NodeReport:
    bookings = tuple(one for one in node.info.bookings if one.namespace == namespace)
    return replace(node, info=replace(node.info, bookings=bookings))


def summary(nodes: Sequence[NodeReport], *, headers: bool = True) -> str:
    """One line for each node, by card; then the whole cluster. Without ``headers`` the lines of the nodes alone."""
    # The original counts from 0 to the largest count. This is the same, unless a card was taken out and left a gap.
    cards = sorted({device.index for node in nodes for device in node.info.devices})
    pending = any(node.info.unplaced for node in nodes)
    header = ["NAME", "IPADDRESS", *(f"GPU{index}(Allocated/Total)" for index in cards)]
    header += ["PENDING(Allocated)"] if pending else []
    rows = [_row([*_summary_cells(node, cards, pending), f"{node.used}/{node.total}"], ended=False) for node in nodes]
    if not headers:
        return align(rows)
    # That of the first node that has cards: the original knows one unit for the whole cluster.
    unit = next((node.unit for node in nodes if node.unit), "")
    return align(
        [
            _row([*header, f"GPU Memory({unit})"], ended=False),
            *rows,
            "-" * (len(rows[0]) + len("\n") + _DASHES_OF_SUMMARY if rows else 0),
            "Allocated/Total GPU Memory In Cluster:",
            _row([_share_of_cluster(nodes)]),
        ]
    )


def details(nodes: Sequence[NodeReport], *, headers: bool = True) -> str:
    """A block for each node with a line for each pod; then the whole cluster.

    Without ``headers`` one line for each pod, which begins with its node.
    """
    if not headers:
        return align(_row([node.name, pod], ended=False) for node in nodes for pod in _pod_rows(node))
    return align(_lines_of_details(nodes))


def _lines_of_details(nodes: Sequence[NodeReport]) -> Iterator[str]:
    dashes = 0
    for node in nodes:
        rows = _pod_rows(node)
        if not dashes:
            dashes = sum(len(row) + len("\n") for row in rows) + _DASHES_OF_DETAILS
        yield from ("", f"NAME:\t{node.name}", f"IPADDRESS:\t{printable(node.address)}", "")
        cards = [f"GPU{device.index}(Allocated)" for device in node.info.devices]
        yield _row(["NAME", "NAMESPACE", *cards, *(["Pending(Allocated)"] if node.info.unplaced else [])])
        yield from rows
        yield _row(["Allocated :", f"{node.used} ({_percent(node.used, node.total)})"])
        yield _row(["Total :", f"{node.total} "])
        yield "-" * dashes
    yield from ("", "", _row(["Allocated/Total GPU Memory In Cluster:", _share_of_cluster(nodes)]))


def align(lines: Iterable[str]) -> str:
    """Lines of tab-separated cells as aligned text, each line ended by a line feed; a line without the cell ends a column."""
    cells = [line.split("\t") for line in lines]
    for column in range(max(map(len, cells), default=1) - 1):
        for has_cell, run in groupby(cells, key=lambda line: len(line) > column + 1):
            of_column = [*run] if has_cell else []
            width = max((len(line[column]) for line in of_column), default=0) + _PADDING
            for line in of_column:
                line[column] = line[column].ljust(width)
    return "".join(f"{''.join(line)}\n" for line in cells)


def _row(cells: Sequence[str], *, ended: bool = True) -> str:
    """Cells with a tab between them, and after the last if the original has one there."""
    return "\t".join(cells) + ("\t" if ended else "")


def _summary_cells(node: NodeReport, cards: Sequence[int], pending: bool) -> list[str]:
    by_index = {device.index: f"{device.used}/{device.total}" for device in node.info.devices}
    cells = [node.name, printable(node.address), *(by_index.get(index, "0/0") for index in cards)]
    if pending:
        cells.append(str(node.info.unplaced) if node.info.unplaced else "")
    return cells


def _pod_rows(node: NodeReport) -> list[str]:
    rows = []
    for booking in node.info.bookings:
        units = [units_on(booking, device.index) for device in node.info.devices]
        pending = [max(booking.units - sum(units), 0)] if node.info.unplaced else []
        rows.append(_row([booking.name, booking.namespace, *map(str, [*units, *pending])]))
    return rows


def _share_of_cluster(nodes: Sequence[NodeReport]) -> str:
    used, total = sum(node.used for node in nodes), sum(node.total for node in nodes)
    return f"{used}/{total} ({_percent(used, total)})"


def _percent(used: int, total: int) -> str:
    """Cut, not rounded, and in binary fractions: 29 of 100 is 28 %, as in the original."""
    return f"{int(used / total * 100) if total else 0}%"


def wide(nodes: Iterable[NodeReport], *, headers: bool = True) -> str:
    """Each card with its model, its health and how many pods it has; of a node without cards one line.

    If a pod's limit is published, the states of the limits of each card's pods are there, too.
    """
    shown = tuple(nodes)
    columns = _WIDE if any(node.limits for node in shown) else _WIDE[:-1]
    return table(columns, (row[: len(columns)] for node in shown for row in _wide_rows(node)), headers=headers)


def _limits(node: NodeReport, index: int) -> str:
    found = (node.limits.get((one.uid, index)) for one in node.info.bookings)
    states = Counter(limit.state for limit in found if limit is not None)
    return ", ".join(f"{states[one]} {one}" for one in STATES if states[one]) or "-"


def _wide_rows(node: NodeReport) -> Iterable[list[object]]:
    for device in node.info.devices:
        pods = sum(1 for one in node.info.bookings if units_on(one, device.index))
        yield [
            node.name, node.address, device.index, device.model or "-", device.uuid or "-", device.used, node.size_of(device),
            node.unit, _health(device, node), pods, _limits(node, device.index),
        ]  # fmt: skip
    if node.info.unplaced:
        yield [node.name, node.address, "-", "-", "-", node.info.unplaced, "-", node.unit or "-", "pending", "-", "-"]


def _health(device: Device, node: NodeReport) -> str:
    if device.used > node.size_of(device):
        return "over-booked"
    unhealthy = node.unhealthy.get(device.index)
    if device.healthy:
        return "ok"
    return (unhealthy.reason if unhealthy else node.info.published.refusal) or "unhealthy"


def names(nodes: Iterable[NodeReport]) -> str:
    """As kubectl takes them."""
    return "".join(f"node/{node.name}\n" for node in nodes)
