"""A pod's request for its card, by the rules of Kubernetes: restated here, and not read from anything under test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from e2e import spec
from e2e.quantities import whole_number


@dataclass(frozen=True, slots=True)
class GpuContainer:
    """One container that asks for card memory."""

    name: str
    units: int
    kind: Literal["init", "sidecar", "app"]


def gpu_containers(pod: Mapping[str, Any]) -> list[GpuContainer]:
    """Those of a pod, in the order in which a kubelet allocates for them."""
    found = []
    for item in pod["spec"].get("initContainers") or ():
        kind: Literal["init", "sidecar"] = "sidecar" if item.get("restartPolicy") == "Always" else "init"
        found.append(GpuContainer(item["name"], _units(item), kind))
    found += [GpuContainer(item["name"], _units(item), "app") for item in pod["spec"]["containers"]]
    return [container for container in found if container.units]


def units_of(pod: Mapping[str, Any]) -> int:
    """The request of a pod: its containers and sidecars, or more if an init container beside the sidecars before it needs more."""
    containers = gpu_containers(pod)
    sidecars = most = 0
    for container in containers:
        if container.kind == "sidecar":
            sidecars += container.units
        elif container.kind == "init":
            most = max(most, container.units + sidecars)
    return max(most, sidecars + sum(one.units for one in containers if one.kind == "app"))


def _units(container: Mapping[str, Any]) -> int:
    limits = (container.get("resources") or {}).get("limits") or {}
    return whole_number(limits.get(spec.RESOURCE_MEMORY, 0))
