"""Whose ids are these? The kubelet's own book, read before a container starts.

First the PodResources API; on nodes where its socket is not mounted (the original's manifests) the device manager's
checkpoint, which lies in the folder that is. Ids belong to one pod at a time, so one common id names the owner; an
ordinary init container is not listed by PodResources, but the container that reuses its ids is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc
import grpc.aio
import msgspec

from gpushare import wire
from gpushare.deviceplugin.proto import podresources_pb2, podresources_pb2_grpc

_LOG = logging.getLogger(__name__)

_CHECKPOINT: Final = "kubelet_internal_checkpoint"
# A List answer carries every id of the node; 16 MiB is what the kubelet's own tests allow.
_MESSAGE_BYTES: Final = 16 * 1024 * 1024
# PreStartContainer has 30 s in all; the kubelet answers in milliseconds.
_TIMEOUT_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Owner:
    """A pod, by name (PodResources knows no uid) or by uid (the checkpoint knows no name)."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class _Entry(msgspec.Struct, gc=False):
    PodUID: str = ""
    ResourceName: str = ""
    # By NUMA node since 1.20, a flat list before.
    DeviceIDs: dict[str, list[str] | None] | list[str] | None = None


class _Data(msgspec.Struct, gc=False):
    PodDeviceEntries: list[_Entry] | None = None


class _Checkpoint(msgspec.Struct, gc=False):
    Data: _Data = msgspec.field(default_factory=_Data)


class KubeletBook:
    """The kubelet's answer to "which pod has this id"."""

    def __init__(self, pod_resources_socket: Path, device_plugin_path: Path) -> None:
        self._socket = pod_resources_socket
        self._checkpoint = device_plugin_path / _CHECKPOINT

    async def owners(self) -> dict[str, Owner]:
        """The owner of every allocated id of our resource."""
        if self._socket.exists():
            try:
                return await self._from_pod_resources()
            except grpc.aio.AioRpcError as error:
                _LOG.warning("PodResources did not answer code=%s; reading the checkpoint", error.code().name)
        return self._from_checkpoint()

    async def owner(self, device_ids: Iterable[str]) -> Owner | None:
        """The pod that has these ids, or None where the kubelet does not know one (yet)."""
        owners = await self.owners()
        return next((owners[device_id] for device_id in device_ids if device_id in owners), None)

    async def _from_pod_resources(self) -> dict[str, Owner]:
        options = [("grpc.max_receive_message_length", _MESSAGE_BYTES), ("grpc.default_authority", "localhost")]
        async with grpc.aio.insecure_channel(f"unix:{self._socket}", options=options) as channel:
            lister = podresources_pb2_grpc.PodResourcesListerStub(channel)
            answer = await lister.List(podresources_pb2.ListPodResourcesRequest(), timeout=_TIMEOUT_SECONDS)
        return {
            device_id: Owner(namespace=pod.namespace, name=pod.name)
            for pod in answer.pod_resources
            for container in pod.containers
            for devices in container.devices
            if devices.resource_name == wire.RESOURCE_MEMORY
            for device_id in devices.device_ids
        }

    def _from_checkpoint(self) -> dict[str, Owner]:
        try:
            checkpoint = msgspec.json.decode(self._checkpoint.read_bytes(), type=_Checkpoint)
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            _LOG.warning("cannot read the kubelet's checkpoint path=%s error=%s", self._checkpoint, error)
            return {}
        entries = checkpoint.Data.PodDeviceEntries or ()
        return {
            device_id: Owner(uid=entry.PodUID)
            for entry in entries
            if entry.ResourceName == wire.RESOURCE_MEMORY
            for device_id in _flat(entry.DeviceIDs)
        }


def _flat(device_ids: dict[str, list[str] | None] | list[str] | None) -> list[str]:
    if isinstance(device_ids, dict):
        return [device_id for ids in device_ids.values() for device_id in ids or ()]
    return device_ids or []
