"""Nodes and pods as the API shows them to a book, and what is booked."""

from __future__ import annotations

import msgspec

from gpushare.extender.core.book import Book
from gpushare.manifests import Node, Pod
from gpushare.model.node import Booking

MEMORY, COUNT = "aliyun.com/gpu-mem", "aliyun.com/gpu-count"


def node(name: str = "n", memory: int = 28, count: int = 2, cpu: str = "1") -> Node:
    """A node of the Go plugin."""
    status = {"capacity": {MEMORY: str(memory), COUNT: str(count)}, "allocatable": {"cpu": cpu}}
    return msgspec.convert({"metadata": {"name": name}, "status": status}, Node)


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
    version: int = 0,
) -> Pod:
    """A pod as the API shows it."""
    resources = {"limits": {MEMORY: units}, "requests": {"cpu": cpu}}
    document = {
        "metadata": {
            "name": name or uid,
            "namespace": "default",
            "uid": uid,
            "resourceVersion": str(version or ""),
            "annotations": None if card is None else {"ALIYUN_COM_GPU_MEM_IDX": str(card)},
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
