"""The fields of a pod that the scheduler reads. Pure."""

from __future__ import annotations

from clusters.api.api_client import Object


def full_name(pod: Object) -> str:
    """``namespace/name``."""
    return f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"


def scheduler_of(pod: Object) -> str:
    """The name of the pod's scheduler."""
    return str(pod["spec"].get("schedulerName", "default-scheduler"))


def node_of(pod: Object) -> str:
    """The node that the pod is bound to, or the empty string."""
    return pod["spec"].get("nodeName") or ""


def priority_of(pod: Object) -> int:
    """How important the pod is; higher goes first."""
    return int(pod["spec"].get("priority") or 0)


def nominated_node_of(pod: Object) -> str:
    """The node that preemption has chosen for the pod, or the empty string."""
    return (pod.get("status") or {}).get("nominatedNodeName") or ""


def is_gated(pod: Object) -> bool:
    """Whether scheduling gates still hold the pod back."""
    return bool(pod["spec"].get("schedulingGates"))


def not_imitated(pod: Object) -> list[str]:
    """The fields by which kube-scheduler chooses among nodes, and this scheduler does not."""
    spec = pod["spec"]
    affinity = spec.get("affinity") or {}
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    found = {
        "podAffinity": affinity.get("podAffinity"),
        "podAntiAffinity": affinity.get("podAntiAffinity"),
        "preferred node affinity": (affinity.get("nodeAffinity") or {}).get("preferredDuringSchedulingIgnoredDuringExecution"),
        "topologySpreadConstraints": spec.get("topologySpreadConstraints"),
        "persistentVolumeClaim": any("persistentVolumeClaim" in each for each in spec.get("volumes") or ()),
        "resourceClaims": spec.get("resourceClaims"),
        "hostPort": any(port.get("hostPort") for each in containers for port in each.get("ports") or ()),
    }  # fmt: skip
    return [name for name, value in found.items() if value]
