"""Taints that follow from a node's conditions: no pods go to a node on which they cannot run. Pure.

The real node lifecycle controller also notices kubelets that fall silent, and evicts; this one believes what nodes say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from clusters.api.resources import NODES
from clusters.embedded.controllers.actions import Action, Object, Patch

_PREFIX: Final = "node.kubernetes.io/"
# A condition and its status, to the taint that they mean.
_TAINTS: Final = {
    ("Ready", "False"): "not-ready",
    ("Ready", "Unknown"): "unreachable",
    ("MemoryPressure", "True"): "memory-pressure",
    ("DiskPressure", "True"): "disk-pressure",
    ("PIDPressure", "True"): "pid-pressure",
    ("NetworkUnavailable", "True"): "network-unavailable",
}
_UNSCHEDULABLE: Final = "unschedulable"
_OURS: Final = {_PREFIX + name for name in (*_TAINTS.values(), _UNSCHEDULABLE)}
_EFFECT: Final = "NoSchedule"


def tainted(nodes: Sequence[Object], now: str) -> list[Action]:
    """Bring each node's taints in line with its conditions; ``now`` is when a new one was added."""
    actions: list[Action] = []
    for node in nodes:
        there = node.get("spec", {}).get("taints") or []
        due = _due(node)
        kept = [taint for taint in there if not _is_ours(taint) or taint["key"] in due]
        new = [key for key in due if key not in {taint["key"] for taint in kept if _is_ours(taint)}]
        if new or len(kept) != len(there):
            taints = [*kept, *({"key": key, "effect": _EFFECT, "timeAdded": now} for key in new)]
            # If another client changed the node in between, its change wins; the next picture asks again.
            metadata = {"resourceVersion": node["metadata"]["resourceVersion"]}
            actions.append(Patch(NODES, node, {"metadata": metadata, "spec": {"taints": taints}}))
    return actions


def _due(node: Object) -> list[str]:
    conditions = node.get("status", {}).get("conditions") or []
    found = [_TAINTS.get((one["type"], one["status"])) for one in conditions]
    if node.get("spec", {}).get("unschedulable"):
        found.append(_UNSCHEDULABLE)
    return [_PREFIX + name for name in found if name]


def _is_ours(taint: Object) -> bool:
    return taint["key"] in _OURS and taint.get("effect") == _EFFECT
