"""The requests of a plugin's answer to the container's runtime beside variables, and the cards that they show. Pure.

As NVIDIA's runtime reads it: names of the Container Device Interface, in CRI's own field or in annotations; mounts below a
folder of its own, if the variable names that folder; else the variable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from clusters.kubelet.proto import deviceplugin_pb2 as pb

_CDI_KIND: Final = "nvidia.com/gpu="
_CDI_PREFIX: Final = "cdi.k8s.io/"
_MOUNTS_FOLDER: Final = "/var/run/nvidia-container-devices"


@dataclass(frozen=True, slots=True)
class DeviceRequests:
    """The devices of the CDI by their full names, and the paths that are mounted into the container."""

    cdi: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """As a simulated container's log shows them."""
        return [f"CDI device {name}" for name in self.cdi] + [f"mount {path}" for path in self.mounts]


def requests_of(responses: Iterable[bytes]) -> DeviceRequests:
    """Those of a container, from the plugins' encoded answers."""
    answers = [pb.ContainerAllocateResponse.FromString(response) for response in responses]
    cdi = [device.name for answer in answers for device in answer.cdi_devices]
    cdi += [
        name
        for answer in answers
        for key, names in sorted(answer.annotations.items())
        if key.startswith(_CDI_PREFIX)
        for name in names.split(",")
    ]
    mounts = [mount.container_path for answer in answers for mount in answer.mounts]
    return DeviceRequests(tuple(dict.fromkeys(cdi)), tuple(mounts))


def visible_devices(environment: Mapping[str, str], requests: DeviceRequests) -> str | None:
    """The value of NVIDIA_VISIBLE_DEVICES that would name the same cards."""
    value = environment.get("NVIDIA_VISIBLE_DEVICES")
    if value == _MOUNTS_FOLDER:
        return ",".join(_below(_MOUNTS_FOLDER + "/", requests.mounts))
    named = _below(_CDI_KIND, requests.cdi)
    return ",".join(named) if named else value


def _below(prefix: str, names: Sequence[str]) -> list[str]:
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
