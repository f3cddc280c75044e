"""The objects of gpushare that a cluster lacks, and the pods that never come to its extender."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpushare import wire
from gpushare.manifests import Node, Pod
from gpushare.model.node import capacity
from gpushare.model.pod import is_finished, names_card_resources
from gpushare.setup.core.faults import Fault

NAMESPACE: Final = "kube-system"
EXTENDER: Final = "gpushare-schd-extender"
PLUGIN: Final = "gpushare-device-plugin-ds"
_INSTALL: Final = "kubectl apply -k clusters/deploy/base  # once your images are set there: clusters/deploy/README.md"
# The chart of JupyterHub names its scheduler so, behind the name of the release.
_USER_SCHEDULER: Final = "user-scheduler"


def cluster_faults(
    extender: Mapping[str, Any] | None, plugin: Mapping[str, Any] | None, nodes: Sequence[Node]
) -> list[Fault]:
    """The faults of the Deployment and the DaemonSet, None if they are not there, and of all nodes together."""
    found = [
        *_not_ready("deployment", EXTENDER, extender, ("spec", "replicas"), ("status", "readyReplicas")),
        *_not_ready("daemonset", PLUGIN, plugin, ("status", "desiredNumberScheduled"), ("status", "numberReady")),
    ]
    if extender is not None and not _number(extender, "spec", "replicas"):
        what = f"deployment {EXTENDER} is scaled to 0: no pod that waits gets a card"
        found.append(Fault(what, f"kubectl -n {NAMESPACE} scale deployment/{EXTENDER} --replicas=1"))
    if plugin is not None and not _number(plugin, "status", "desiredNumberScheduled"):
        found.append(
            Fault(
                f"daemonset {PLUGIN}: no node has the label gpushare=true",
                "kubectl get nodes -L gpushare  # then, for each NODE that has cards: kubectl label node NODE gpushare=true",
            )
        )
    if not found and not any(capacity(node, wire.RESOURCE_MEMORY) for node in nodes):
        found.append(Fault(f"no node has {wire.RESOURCE_MEMORY}", f"kubectl -n {NAMESPACE} logs daemonset/{PLUGIN}"))
    return found


def bypasses_extender(pod: Pod) -> bool:
    """Does the pod share a card, and is it bound by a scheduler that asks no extender?"""
    return _USER_SCHEDULER in (pod.spec.scheduler_name or "") and names_card_resources(pod) and not is_finished(pod)


def scheduler_faults(bypassing: Sequence[Pod]) -> list[Fault]:
    """The fault of the pods that bypass the extender."""
    if not bypassing:
        return []
    first = bypassing[0]
    return [
        Fault(
            f"pod {first.metadata.namespace}/{first.metadata.name} shares a card and has JupyterHub's scheduler "
            f"{first.spec.scheduler_name}, which does not ask the extender (pods such as this: {len(bypassing)})",
            "name default-scheduler as scheduler_name of the profile, or gpushare-scheduler (docs/install/jupyterhub.md)",
        )
    ]


def _not_ready(
    kind: str, name: str, found: Mapping[str, Any] | None, wanted: tuple[str, str], ready: tuple[str, str]
) -> list[Fault]:
    if found is None:
        return [Fault(f"{kind} {name} is not in {NAMESPACE}", _INSTALL)]
    if _number(found, *ready) < _number(found, *wanted):
        what = f"{kind} {name}: {_number(found, *ready)} of {_number(found, *wanted)} pods are ready"
        return [
            Fault(what, f"kubectl -n {NAMESPACE} describe {kind}/{name}; kubectl -n {NAMESPACE} logs {kind}/{name}")
        ]
    return []


def _number(found: Mapping[str, Any], part: str, key: str) -> int:
    return int((found.get(part) or {}).get(key) or 0)
