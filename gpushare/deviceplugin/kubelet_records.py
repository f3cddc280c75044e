"""The kubelet's records: which container has which ids, and which resources it counts.

The device manager's checkpoint, in the folder of the sockets, has all of them: it is written with each Allocate, before the
kubelet goes on. Reading it disturbs nothing. PodResources, the kubelet's public side, knows less: no uids, no answers that
containers got, no ordinary init containers. And ``List`` disturbs: a kubelet that is asked frees the ids of ended pods, and
computes its taken ids again, without those of an Allocate that is under way. So it is called only if the file cannot be read,
and never during an admission.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from pathlib import Path
from typing import Final

import grpc
import grpc.aio
import msgspec
from google.protobuf.message import DecodeError

from gpushare.deviceplugin.core.holdings import Entry
from gpushare.deviceplugin.core.kept_pods import RESOURCES
from gpushare.deviceplugin.proto import deviceplugin_pb2
from gpushare.deviceplugin.proto import podresources_pb2 as pr
from gpushare.foreign import Decoder, UnreadableError

_LOG = logging.getLogger(__name__)

# The file's name in the folder of the device plugins' sockets.
CHECKPOINT: Final = "kubelet_internal_checkpoint"
# A List answer carries every id of the node, and only the kubelet may write to this socket: any size is taken.
_OPTIONS: Final = (("grpc.max_receive_message_length", -1), ("grpc.default_authority", "localhost"))
# PreStartContainer has 30 s in all; the kubelet answers in milliseconds, or refuses more than 100 calls a second.
BUDGET_SECONDS: Final = 10.0
_FIRST_PAUSE_SECONDS: Final = 0.02


class _Line(msgspec.Struct, gc=False):
    PodUID: str = ""
    ContainerName: str = ""
    ResourceName: str = ""
    # By NUMA node since 1.20, a flat list before.
    DeviceIDs: dict[str, list[str] | None] | list[str] | None = None
    AllocResp: str | None = None


class _Data(msgspec.Struct, gc=False):
    PodDeviceEntries: list[_Line] | None = None
    RegisteredDevices: dict[str, msgspec.Raw] | None = None


class _Checkpoint(msgspec.Struct, gc=False):
    Data: _Data = msgspec.field(default_factory=_Data)


_DECODER: Final = Decoder(_Checkpoint)


def _variables_of(response: str | None) -> dict[str, str] | None:
    """The variables in an answer of ours that the kubelet keeps; None if it keeps none that can be read."""
    if not response:
        return None
    try:
        encoded = base64.b64decode(response, validate=True)
        return dict(deviceplugin_pb2.ContainerAllocateResponse.FromString(encoded).envs)
    except (binascii.Error, DecodeError):
        return None


def _entry(line: _Line) -> Entry:
    found = line.DeviceIDs or ()
    ids = [one for ids in found.values() for one in ids or ()] if isinstance(found, dict) else found
    variables = _variables_of(line.AllocResp)
    return Entry(line.ContainerName, frozenset(ids), line.PodUID, resource=line.ResourceName, variables=variables)


class KubeletRecords:
    """The kubelet's answer to "which container has this id"."""

    def __init__(self, pod_resources_socket: Path, device_plugin_path: Path) -> None:
        self._socket = pod_resources_socket
        self.path = device_plugin_path / CHECKPOINT
        # The file as it was read last: it is large if there are many ids, and rarely changes between two questions.
        self._read: tuple[tuple[int, int, int], tuple[tuple[Entry, ...], frozenset[str]]] | None = None

    async def entries(self) -> tuple[Entry, ...]:
        """All records, for when no admission is under way."""
        file = self.checkpoint()
        return await self._from_pod_resources() if file is None else file

    def checkpoint(self) -> tuple[Entry, ...] | None:
        """The file, or None if there is none that can be read."""
        try:
            read = self._load()
        except OSError as error:
            _LOG.warning("cannot read the kubelet's checkpoint path=%s error=%s", self.path, error)
            return None
        return None if read is None else read[0]

    def owns(self, resource: str) -> bool:
        """Does the kubelet count the resource's devices by its checkpoint, or has it given some to a pod?

        A checkpoint that makes no sense counts for nothing: a kubelet that cannot decode it either begins without it. Raises
        OSError for one that is there and that the kubelet alone may be able to read.
        """
        read = self._load()
        return read is not None and resource in read[1]

    def _load(self) -> tuple[tuple[Entry, ...], frozenset[str]] | None:
        """The lines of our resources, and the names of the resources that the kubelet counts or gave away. Raises OSError."""
        try:
            stat = self.path.stat()
            identity = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if self._read is None or self._read[0] != identity:
                data = _DECODER.decode(self.path.read_bytes()).Data
                lines = data.PodDeviceEntries or ()
                ours = tuple(_entry(line) for line in lines if line.ResourceName in RESOURCES)
                self._read = identity, (ours, frozenset({*(data.RegisteredDevices or ()), *(e.resource for e in ours)}))
        except FileNotFoundError:
            return None
        except UnreadableError as error:
            _LOG.warning("cannot read the kubelet's checkpoint path=%s error=%s", self.path, error)
            return None
        return self._read[1]

    async def _from_pod_resources(self) -> tuple[Entry, ...]:
        """Patient: over 100 calls a second the kubelet refuses. Nothing if it does not answer in time."""
        if not self._socket.exists():
            return ()
        pause = _FIRST_PAUSE_SECONDS
        try:
            async with asyncio.timeout(BUDGET_SECONDS):
                while True:
                    try:
                        return await self._list()
                    except grpc.aio.AioRpcError as error:
                        if error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED:
                            raise
                    await asyncio.sleep(pause)
                    pause *= 2
        except TimeoutError:
            _LOG.warning("PodResources refused or was silent for %.0f s", BUDGET_SECONDS)
        except grpc.aio.AioRpcError as error:
            _LOG.warning("PodResources did not answer code=%s", error.code().name)
        return ()

    async def _list(self) -> tuple[Entry, ...]:
        async with grpc.aio.insecure_channel(f"unix:{self._socket}", options=_OPTIONS) as channel:
            method, read = "/v1.PodResourcesLister/List", pr.ListPodResourcesResponse.FromString
            ask = channel.unary_unary(method, pr.ListPodResourcesRequest.SerializeToString, read)
            answer = await ask(pr.ListPodResourcesRequest(), timeout=BUDGET_SECONDS)
        found: dict[tuple[str, str, str, str], set[str]] = {}
        for pod in answer.pod_resources:
            for container in pod.containers:
                for devices in container.devices:
                    if devices.resource_name in RESOURCES:
                        key = (pod.namespace, pod.name, container.name, devices.resource_name)
                        found.setdefault(key, set()).update(devices.device_ids)
        return tuple(
            Entry(container, frozenset(ids), namespace=namespace, pod=name, resource=resource)
            for (namespace, name, container, resource), ids in found.items()
        )
