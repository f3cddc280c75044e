"""The report as one document for programs, in JSON or YAML; and which of its nodes and pods are shown, in which order. Pure.

Amounts are in the ``unit`` of their node; a field that is not known is an empty text. New fields may come, and none changes its
meaning without a new ``apiVersion``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import yaml

from gpushare.kubectl_inspect.core.card_report import NodeReport
from gpushare.model.node import Booking, Device, units_on

API_VERSION: Final = "inspect.gpushare.aliyun.com/v1"
KIND: Final = "GPUShareInspection"
JSON: Final = "json"
YAML: Final = "yaml"
# The fields by which nodes can be sorted: those of a node that are one text or number.
FIELDS: Final[Mapping[str, Callable[[NodeReport], str | int]]] = {
    "name": lambda node: node.name,
    "address": lambda node: node.address,
    "unit": lambda node: node.unit,
    "total": lambda node: node.total,
    "allocated": lambda node: node.used,
    "pending": lambda node: node.info.unplaced,
}


def render(form: str, nodes: Sequence[NodeReport], problems: Sequence[str]) -> str:
    """The text of the document; ``form`` is JSON or YAML."""
    document = describe(nodes, problems)
    if form == JSON:
        return json.dumps(document, indent=4, ensure_ascii=False) + "\n"
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def describe(nodes: Sequence[NodeReport], problems: Sequence[str]) -> dict[str, Any]:
    """Nodes with their cards and pods; ``warnings`` are what the table writes to stderr."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "nodes": [_node(node) for node in nodes],
        "warnings": list(problems),
    }


def _node(node: NodeReport) -> dict[str, Any]:
    return {
        "name": node.name,
        "address": node.address,
        "unit": node.unit,
        "total": node.total,
        "allocated": node.used,
        "pending": node.info.unplaced,
        "cards": [_card(device, node) for device in node.info.devices],
        "pods": [_pod(booking, node) for booking in node.info.bookings],
    }


def _card(device: Device, node: NodeReport) -> dict[str, Any]:
    sick = node.sick.get(device.index)
    described = {
        "index": device.index,
        "uuid": device.uuid,
        "model": device.model,
        "total": device.total,
        "allocated": device.used,
        "free": device.free,
        "healthy": device.healthy,
        "reason": sick.reason if sick else node.info.refusal or "",
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
        "cards": [{"index": index, "allocated": units} for index, units in on_cards if units],
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
