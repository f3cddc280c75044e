"""A pod's request for its card, by the rules of Kubernetes: restated here, and not read from anything under test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from clusters.amounts import amount_of
from e2e import spec

Kind = Literal["init", "sidecar", "app"]
# Quantities are of an int64 in Kubernetes.
_MOST: Final = 2**63 - 1


def whole_number(quantity: object) -> int:
    """The number that ``14``, ``2k``, ``1Ki`` or ``5e3`` stands for, or a bare number of JSON. Raises ValueError for 1.5 and -1."""
    number = amount_of(str(quantity))
    if number.denominator != 1 or not 0 <= number <= _MOST:
        raise ValueError(f"{str(quantity)!r} is not a whole number")
    return number.numerator


@dataclass(frozen=True, slots=True)
class GpuContainer:
    """One container that asks for card memory."""

    name: str
    units: int
    kind: Kind


def gpu_containers(pod: Mapping[str, Any]) -> list[GpuContainer]:
    """Those of a pod, in the order in which a kubelet allocates for them."""
    found = []
    for item in pod["spec"].get("initContainers") or ():
        kind: Kind = "sidecar" if item.get("restartPolicy") == "Always" else "init"
        found.append(GpuContainer(item["name"], _units(item), kind))
    found += [GpuContainer(item["name"], _units(item), "app") for item in pod["spec"]["containers"]]
    return [container for container in found if container.units]


def units_of(pod: Mapping[str, Any]) -> int:
    """The request of a pod: its containers and sidecars, or more if an init container beside the sidecars before it needs more."""
    return _most_at_once((container.kind, container.units) for container in gpu_containers(pod))


def card_of(pod: Mapping[str, Any]) -> int:
    """The index of the card that a pod's annotation names. Raises KeyError and ValueError."""
    return int(pod["metadata"]["annotations"][spec.POD_INDEX])


def slots_of(pod: Mapping[str, Any]) -> int:
    """The slots of a pod on a node that counts containers: one for each that has card memory at the same time."""
    return _most_at_once((container.kind, 1) for container in gpu_containers(pod))


def named_slots(pod: Mapping[str, Any]) -> int:
    """The same, of a pod that names them: one for each container that asks for card memory, and no more; 0 of any other."""
    containers = (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"])
    return slots_of(pod) * all(_units(one, spec.RESOURCE_SLOT) == (_units(one) > 0) for one in containers)


def held_mib(pod: Mapping[str, Any]) -> int:
    """The memory that its containers were made to hold, in MiB, without init containers: these have ended."""
    sidecars = [one for one in pod["spec"].get("initContainers") or () if one.get("restartPolicy") == "Always"]
    settings = [each for one in (*pod["spec"]["containers"], *sidecars) for each in one.get("env") or ()]
    return sum(int(each["value"]) for each in settings if each["name"] == "SIMULATED_HOLDS_MIB")


def _most_at_once(amounts: Iterable[tuple[Kind, int]]) -> int:
    sidecars = apps = most = 0
    for kind, amount in amounts:
        if kind == "sidecar":
            sidecars += amount
        elif kind == "init":
            most = max(most, amount + sidecars)
        else:
            apps += amount
    return max(most, sidecars + apps)


def _units(container: Mapping[str, Any], resource: str = spec.RESOURCE_MEMORY) -> int:
    limits = (container.get("resources") or {}).get("limits") or {}
    return whole_number(limits.get(resource, 0))
