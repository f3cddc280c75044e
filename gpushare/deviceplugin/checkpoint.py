"""The checkpoint of the kubelet's device manager: which container has which ids, and which resources it counts."""

from __future__ import annotations

import base64
import binascii
from typing import Final

import msgspec
from google.protobuf.message import DecodeError

from gpushare.deviceplugin.core.holdings import Entry
from gpushare.deviceplugin.core.kept_pods import RESOURCES
from gpushare.deviceplugin.proto import deviceplugin_pb2

# The file's name in the folder of the device plugins' sockets.
CHECKPOINT: Final = "kubelet_internal_checkpoint"


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


class Checkpoint(msgspec.Struct, gc=False):
    """The file, as the kubelet writes it."""

    Data: _Data = msgspec.field(default_factory=_Data)

    @classmethod
    def decode(cls, content: bytes) -> Checkpoint:
        """Raises msgspec.DecodeError for what is no checkpoint."""
        return msgspec.json.decode(content, type=cls)

    def entries(self) -> tuple[Entry, ...]:
        """The containers with ids of ours."""
        return tuple(
            Entry(
                line.ContainerName,
                frozenset(_flat(line.DeviceIDs)),
                uid=line.PodUID,
                resource=line.ResourceName,
                variables=_variables_of(line.AllocResp),
            )
            for line in self.Data.PodDeviceEntries or ()
            if line.ResourceName in RESOURCES
        )

    def owns(self, resource: str) -> bool:
        """Does this kubelet count the resource's devices, or has it given some to a pod?"""
        return resource in (self.Data.RegisteredDevices or ()) or any(
            line.ResourceName == resource for line in self.Data.PodDeviceEntries or ()
        )


def _variables_of(response: str | None) -> dict[str, str] | None:
    """The variables in an answer of ours that the kubelet keeps; None if it keeps none that can be read."""
    if not response:
        return None
    try:
        encoded = base64.b64decode(response, validate=True)
        return dict(deviceplugin_pb2.ContainerAllocateResponse.FromString(encoded).envs)
    except (binascii.Error, DecodeError):
        return None


def _flat(device_ids: dict[str, list[str] | None] | list[str] | None) -> list[str]:
    if isinstance(device_ids, dict):
        return [device_id for ids in device_ids.values() for device_id in ids or ()]
    return device_ids or []
