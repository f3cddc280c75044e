"""The variables of a simulated container, the other requests of plugins to its runtime, and the cards that both show. Pure.

The cards are found as NVIDIA's runtime does it: names of the Container Device Interface, in CRI's own field or in annotations;
mounts below a folder of its own, if the variable names that folder; else the variable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from clusters.kubelet.pods import Container, Object
from clusters.kubelet.proto import deviceplugin_pb2 as pb

# A simulated container's log begins with these: every variable with which a device plugin gives it its share.
_GPU_NAMES: Final = ("NVIDIA_VISIBLE_DEVICES", "CGPU_DISABLE")
_GPU_PREFIXES: Final = ("ALIYUN_COM_GPU_MEM_", "NVIDIA_GPU_MEMORY_")
_CDI_KIND: Final = "nvidia.com/gpu="
_CDI_PREFIX: Final = "cdi.k8s.io/"
_MOUNTS_FOLDER: Final = "/var/run/nvidia-container-devices"


def environment_of(pod: Object, container: Container, from_plugins: Mapping[str, str]) -> dict[str, str]:
    """The plugins' variables, then the pod's own, which win (measured on a real kubelet).

    Of ``valueFrom`` the fields of the pod's metadata and ``spec.nodeName`` are known; other sources are left out.
    """
    merged = dict(from_plugins)
    for item in container.env:
        value = _field(pod, item["valueFrom"]) if "valueFrom" in item else item.get("value", "")
        if value is not None:
            merged[item["name"]] = value
    return merged


def gpu_lines(environment: Mapping[str, str]) -> list[str]:
    """``NAME=value`` of the GPU variables, sorted."""
    names = sorted(name for name in environment if name in _GPU_NAMES or name.startswith(_GPU_PREFIXES))
    return [f"{name}={environment[name]}" for name in names]


def _field(pod: Object, source: Object) -> str | None:
    path = (source.get("fieldRef") or {}).get("fieldPath", "")
    metadata = pod["metadata"]
    plain = {"spec.nodeName": str(pod["spec"].get("nodeName", ""))}
    plain |= {f"metadata.{name}": str(metadata.get(name, "")) for name in ("name", "namespace", "uid")}
    if path in plain:
        return plain[path]
    for kind in ("annotations", "labels"):
        prefix = f"metadata.{kind}['"
        if path.startswith(prefix) and path.endswith("']"):
            return str((metadata.get(kind) or {}).get(path[len(prefix) : -2], ""))
    return None


@dataclass(frozen=True, slots=True)
class DeviceRequests:
    """The devices of the CDI by their full names, and the paths that are mounted into the container.

    ``variables`` are those of the plugins alone, before the pod's.
    """

    cdi: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """As a simulated container's log shows them."""
        return [f"CDI device {name}" for name in self.cdi] + [f"mount {path}" for path in self.mounts]


def requests_of(answers: Sequence[pb.ContainerAllocateResponse], variables: Mapping[str, str]) -> DeviceRequests:
    """Those of a container, from the plugins' answers."""
    cdi = [device.name for answer in answers for device in answer.cdi_devices]
    cdi += [
        name
        for answer in answers
        for key, names in sorted(answer.annotations.items())
        if key.startswith(_CDI_PREFIX)
        for name in names.split(",")
    ]
    mounts = [mount.container_path for answer in answers for mount in answer.mounts]
    return DeviceRequests(tuple(dict.fromkeys(cdi)), tuple(mounts), variables)


def visible_devices(environment: Mapping[str, str], requests: DeviceRequests) -> str | None:
    """The value of NVIDIA_VISIBLE_DEVICES that would name the same cards."""
    value = environment.get("NVIDIA_VISIBLE_DEVICES")
    if value == _MOUNTS_FOLDER:
        return ",".join(_below(_MOUNTS_FOLDER + "/", requests.mounts))
    named = _below(_CDI_KIND, requests.cdi)
    return ",".join(named) if named else value


def _below(prefix: str, names: Sequence[str]) -> list[str]:
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
