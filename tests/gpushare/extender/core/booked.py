"""Nodes and pods as the API shows them to a book, and what is booked."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gpushare.extender.core.book import Book
from gpushare.manifests import Node, Pod
from gpushare.model.node import Booking

MEMORY, COUNT = "aliyun.com/gpu-mem", "aliyun.com/gpu-count"


def node(name: str = "n", memory: int = 28, count: int = 2, cpu: str = "1", cards: str | None = None) -> Node:
    """A node of the Go plugin, or one that publishes its ``cards``."""
    status = {"capacity": {MEMORY: str(memory), COUNT: str(count)}, "allocatable": {"cpu": cpu}}
    annotations = {"aliyun.com/gpushare-cards": cards} if cards else None
    return msgspec.convert({"metadata": {"name": name, "annotations": annotations}, "status": status}, Node)


def pod(
    uid: str,
    units: object = 2,
    *,
    name: str | None = None,
    on: str | None = None,
    card: object = None,
    phase: str = "Pending",
    running: bool = False,
    deleting: bool = False,
    cpu: str = "0",
    version: object = 0,
    annotations: Mapping[str, str] | None = None,
) -> Pod:
    """A pod as the API shows it."""
    written = {**(annotations or {}), **({} if card is None else {"ALIYUN_COM_GPU_MEM_IDX": str(card)})}
    resources = {"limits": {MEMORY: units}, "requests": {"cpu": cpu}}
    document = {
        "metadata": {
            "name": name or uid,
            "namespace": "default",
            "uid": uid,
            "resourceVersion": str(version or ""),
            "annotations": written or None,
            "deletionTimestamp": "2026-01-01T00:00:00Z" if deleting else None,
        },
        "spec": {"nodeName": on, "containers": [{"name": "c", "resources": resources}]},
        "status": {"phase": phase, "containerStatuses": [{"name": "c", "state": {"running": {}}}] if running else None},
    }
    return msgspec.convert(document, Pod)


def booking(uid: str, units: int, card: int) -> Booking:
    """The booking that bind assumes."""
    return Booking(uid, "default", uid, units, ((card, units),))


def used(book: Book, name: str = "n") -> list[int]:
    """Units booked on each card of a node."""
    info = book.snapshot().nodes[name]
    assert info.name == name
    return [device.used for device in info.devices]
