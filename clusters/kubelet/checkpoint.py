"""The file ``kubelet_internal_checkpoint``: what a kubelet remembers of devices over its own restart.

The shape is that of kubelets since 1.20 (Kubernetes pkg/kubelet/cm/devicemanager/checkpoint), which device plugins
read; the checksum is of our own kind, because theirs is one over Go's memory. A file of a kubelet before 1.20, which lists
ids without NUMA nodes, is refused, as by a kubelet of today.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from clusters.kubelet.kubelet_devices import Allocation, DeviceBook

FILE_NAME: Final = "kubelet_internal_checkpoint"
# The key of ids without a NUMA node, as all are here.
_NO_NUMA: Final = "-1"


class CheckpointError(Exception):
    """The file is no checkpoint of ours."""


def encode(book: DeviceBook) -> bytes:
    """The file's content: allocations, and the healthy ids of each resource that a plugin owns."""
    data = {
        "PodDeviceEntries": [_entry(allocation) for allocation in book.allocations()],
        "RegisteredDevices": {
            resource: [device.id for device in book.healthy_devices(resource)] for resource in book.resources()
        },
    }
    return json.dumps({"Data": data, "Checksum": checksum(data)}, separators=(",", ":")).encode()


def decode(content: bytes) -> tuple[tuple[Allocation, ...], tuple[str, ...]]:
    """Allocations and names of resources. Raises CheckpointError for anything that ``encode`` did not write."""
    try:
        document = json.loads(content)
        data = document["Data"]
        if document["Checksum"] != checksum(data):
            raise CheckpointError("its checksum is wrong")
        allocations = tuple(_allocation(entry) for entry in data["PodDeviceEntries"] or ())
        return allocations, tuple(data["RegisteredDevices"] or ())
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error) as error:
        raise CheckpointError(f"it is not a checkpoint: {error!r}") from error


def write(folder: Path, book: DeviceBook) -> None:
    """Replace the file in one step, so that a reader never sees half of it."""
    temporary = folder / f".{FILE_NAME}.new"
    temporary.write_bytes(encode(book))
    temporary.replace(folder / FILE_NAME)


def restore(folder: Path, book: DeviceBook) -> None:
    """Fill an empty book from the file, if there is one.

    Its resources come back without devices: they count 0 until their plugin registers again. Raises CheckpointError.
    """
    try:
        content = (folder / FILE_NAME).read_bytes()
    except FileNotFoundError:
        return
    allocations, resources = decode(content)
    for resource in resources:
        book.expect(resource)
    for allocation in allocations:
        book.store(allocation)


def _entry(allocation: Allocation) -> dict[str, Any]:
    return {
        "PodUID": allocation.pod_uid,
        "ContainerName": allocation.container,
        "ResourceName": allocation.resource,
        "DeviceIDs": {_NO_NUMA: list(allocation.ids)},
        "AllocResp": base64.b64encode(allocation.response).decode(),
    }


def _allocation(entry: Mapping[str, Any]) -> Allocation:
    ids = tuple(device_id for near in entry["DeviceIDs"].values() for device_id in near)
    response = base64.b64decode(entry["AllocResp"], validate=True)
    return Allocation(entry["PodUID"], entry["ContainerName"], entry["ResourceName"], ids, response)


def checksum(data: Any) -> int:
    """Ours."""
    return zlib.crc32(json.dumps(data, sort_keys=True).encode())
