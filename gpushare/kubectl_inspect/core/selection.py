"""Which nodes and pods of a report are shown, and in which order. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from gpushare.kubectl_inspect.core.card_report import NodeReport

# The fields by which nodes can be sorted: those of a node in the document (``document``) that are one text or number.
FIELDS: Final[Mapping[str, Callable[[NodeReport], str | int]]] = {
    "name": lambda node: node.name,
    "address": lambda node: node.address,
    "unit": lambda node: node.unit,
    "total": lambda node: node.total,
    "allocated": lambda node: node.used,
    "pending": lambda node: node.info.unplaced,
}


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
