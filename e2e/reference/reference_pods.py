"""A pod as the reference implementations see it: amounts, cards and ends. Pure; the names are the contract's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

Object = dict[str, Any]
Faults = frozenset[str]

MEMORY: Final = "aliyun.com/gpu-mem"
COUNT: Final = "aliyun.com/gpu-count"
INDEX: Final = "ALIYUN_COM_GPU_MEM_IDX"
UNITS: Final = "ALIYUN_COM_GPU_MEM_POD"
CONTAINER_UNITS: Final = "ALIYUN_COM_GPU_MEM_CONTAINER"
CARD_UNITS: Final = "ALIYUN_COM_GPU_MEM_DEV"
ASSIGNED: Final = "ALIYUN_COM_GPU_MEM_ASSIGNED"
ASSUMED_AT: Final = "ALIYUN_COM_GPU_MEM_ASSUME_TIME"
# The reference implementations' own, on nodes: the units of each card in order, those of an unhealthy one with "!" behind.
CARDS: Final = "reference.example/card-units"
_SUFFIXES: Final = {"k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


@dataclass(frozen=True, slots=True)
class Container:
    """One that asks for card memory; it ``passes_on`` what it had if it is an ordinary init container."""

    name: str
    units: int
    passes_on: bool = False
    is_sidecar: bool = False


def whole(text: object) -> int:
    """A quantity of a resource that cannot be divided. Raises ValueError."""
    digits = str(text).rstrip("kKMGi")
    suffix = str(text)[len(digits) :]
    if not digits.isdecimal() or suffix not in ("", *_SUFFIXES):
        raise ValueError(f"{text!r} is not a whole number of units")
    return int(digits) * _SUFFIXES.get(suffix, 1)


def containers(pod: Mapping[str, Any], faults: Faults = frozenset()) -> list[Container]:
    """Those that ask for card memory, in the order in which a kubelet serves them. Raises ValueError."""
    found = []
    for item in pod["spec"].get("initContainers") or ():
        if not faults & {"d21-init-and-sidecars-ignored", "d21-of-the-plugin"}:
            is_sidecar = item.get("restartPolicy") == "Always"
            found.append(Container(item["name"], _units(item, faults), not is_sidecar, is_sidecar))
    apps = pod["spec"].get("containers") or ()
    found += [Container(item["name"], _units(item, faults)) for item in apps]
    return [one for one in found if one.units]


def units(pod: Mapping[str, Any], faults: Faults = frozenset()) -> int:
    """The most that a pod has at one time. Raises ValueError."""
    standing = most = 0
    for one in containers(pod, faults):
        if one.passes_on:
            most = max(most, standing + one.units)
        else:
            standing += one.units
    return max(most, standing)


def shares(pod: Mapping[str, Any]) -> dict[int, int]:
    """Units on its card, by the pod's annotation; none if this names no card."""
    annotations = pod["metadata"].get("annotations") or {}
    try:
        index = int(annotations[INDEX])
        return {index: units(pod)} if index >= 0 else {}
    except (KeyError, ValueError):
        return {}


def is_over(pod: Mapping[str, Any]) -> bool:
    """Has it ended?"""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def node_of(pod: Mapping[str, Any]) -> str:
    """The node that it is bound to; "" before."""
    return str(pod["spec"].get("nodeName") or "")


def full_name(pod: Mapping[str, Any]) -> str:
    """Namespace and name."""
    return f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata'].get('name', '')}"


def card_sizes(node: Mapping[str, Any], faults: Faults = frozenset()) -> list[tuple[int, bool]]:
    """Units and health of each card: by the reference plugin's annotation while it agrees with the totals, else all of one size."""
    capacity = (node.get("status") or {}).get("capacity") or {}
    try:
        total, count = whole(capacity.get(MEMORY, 0)), whole(capacity.get(COUNT, 0))
        noted = str((node["metadata"].get("annotations") or {}).get(CARDS, "")).split()
        cards = [(int(one.rstrip("!")), not one.endswith("!")) for one in noted]
    except ValueError:
        return []
    if "d06-cards-averaged" not in faults and (len(cards), sum(size for size, _ in cards)) == (count, total):
        return cards
    return [(total // count, True)] * count if count and total else []


def _units(container: Mapping[str, Any], faults: Faults) -> int:
    resources = container.get("resources") or {}
    asked = (resources.get("limits") or {}).get(MEMORY, (resources.get("requests") or {}).get(MEMORY, 0))
    return int(float(asked)) if "fraction-cut" in faults else whole(asked)
