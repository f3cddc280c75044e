"""The variables of a simulated container. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from clusters.kubelet.pods import Container, Object

# A simulated container's log begins with these: every variable with which a device plugin gives it its share.
_GPU_NAMES: Final = ("NVIDIA_VISIBLE_DEVICES", "CGPU_DISABLE")
_GPU_PREFIX: Final = "ALIYUN_COM_GPU_MEM_"


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
    names = sorted(name for name in environment if name in _GPU_NAMES or name.startswith(_GPU_PREFIX))
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
