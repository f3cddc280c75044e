"""The nodes of a cluster that a validation may use, and what their conditions show. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from e2e.checkers.overcommit import is_over
from e2e.quantities import whole_number
from e2e.site.picture import Object, Picture, condition

# Taints with this effect turn no pod away; the probe's pods tolerate the key.
_MILD: Final = "PreferNoSchedule"
_TOLERATED: Final = "nvidia.com/gpu"


def names_of(text: str) -> list[str]:
    """The names in the value of ``--nodes``, which commas part."""
    return [name for name in text.split(",") if name]


def discovered(picture: Picture, names: Sequence[str]) -> list[str]:
    """The nodes to validate: those that are named, or all with a device plugin's labels. Raises ValueError for unknown ones."""
    known = picture.sharing_nodes
    if unknown := [name for name in names if name not in known]:
        raise ValueError(
            f"{', '.join(unknown)}: no node of that name shares cards; there are: {', '.join(known) or 'none'}"
        )
    return list(names) or [name for name, node in known.items() if not picture.lacking(node)]


def why_closed(node: Object, pods: Iterable[Object], wanted: int) -> str:
    """Why a node takes no pods of ours, "" if it does; a pod that waits there in vain might have others evicted."""
    taints = [
        str(one["key"])
        for one in node["spec"].get("taints") or ()
        if one["effect"] != _MILD and one["key"] != _TOLERATED
    ]
    if condition(node, "Ready") != "True":
        return "is not ready"
    if node["spec"].get("unschedulable"):
        return "is cordoned"
    if taints:
        return f"has a taint that keeps pods away: {', '.join(taints)}"
    there = sum(1 for pod in pods if pod["spec"].get("nodeName") == node["metadata"]["name"] and not is_over(pod))
    most = whole_number(node["status"].get("allocatable", {}).get("pods", there + wanted))
    return f"has {there} pods and takes {most}" if there + wanted > most else ""


def is_ready(pod: Object) -> bool:
    """Does the pod serve?"""
    return condition(pod, "Ready") == "True" and not pod["metadata"].get("deletionTimestamp")


def heartbeat(node: Object) -> str:
    """When the kubelet reported last; "" if it never did."""
    return str(max((one.get("lastHeartbeatTime") or "" for one in node["status"].get("conditions") or ()), default=""))
