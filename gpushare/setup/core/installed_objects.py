"""What a cluster lacks of gpushare's objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpushare import wire
from gpushare.manifests import Node
from gpushare.setup.core.faults import Fault

NAMESPACE: Final = "kube-system"
EXTENDER: Final = "gpushare-schd-extender"
PLUGIN: Final = "gpushare-device-plugin-ds"
_INSTALL: Final = "kubectl apply -k clusters/deploy/base, with your images (clusters/deploy/README.md)"


def cluster_faults(
    extender: Mapping[str, Any] | None, plugin: Mapping[str, Any] | None, nodes: Sequence[Node]
) -> list[Fault]:
    """Of the Deployment, the DaemonSet (None if it is not there) and all nodes."""
    found = [
        *_of(f"Deployment {EXTENDER}", extender, "replicas", "readyReplicas"),
        *_of(f"DaemonSet {PLUGIN}", plugin, "desiredNumberScheduled", "numberReady"),
    ]
    if plugin is not None and not _count(plugin, "desiredNumberScheduled"):
        found.append(
            Fault(f"DaemonSet {PLUGIN}: no node has the label gpushare=true", "kubectl label node NODE gpushare=true")
        )
    if not found and not any(_has_memory(node) for node in nodes):
        found.append(Fault(f"no node has {wire.RESOURCE_MEMORY}", f"kubectl logs -n {NAMESPACE} daemonset/{PLUGIN}"))
    return found


def _of(name: str, found: Mapping[str, Any] | None, wanted: str, ready: str) -> list[Fault]:
    if found is None:
        return [Fault(f"{name} is not in {NAMESPACE}", _INSTALL)]
    if _count(found, ready) < _count(found, wanted):
        kind, _, of = name.partition(" ")
        what = f"{name}: {_count(found, ready)} of {_count(found, wanted)} pods are ready"
        return [
            Fault(what, f"kubectl describe pods -n {NAMESPACE} and kubectl logs -n {NAMESPACE} {kind.lower()}/{of}")
        ]
    return []


def _count(found: Mapping[str, Any], key: str) -> int:
    return int(found.get("status", {}).get(key) or 0)


def _has_memory(node: Node) -> bool:
    return bool(node.status and (node.status.capacity or {}).get(wire.RESOURCE_MEMORY, "0") not in ("0", 0))
