"""The objects on the API server: nodes without kubelets, and the pods that are bound to them."""

from __future__ import annotations

from typing import Any, Final

from clusters.resources import NODES, PODS

NAMESPACE: Final = "load"
_MEMORY: Final = "aliyun.com/gpu-mem"
# A node: eight cards of sixteen units, as the original's plugin publishes it.
_AMOUNTS: Final = {"cpu": "64", "memory": "512Gi", "pods": "110", _MEMORY: "128", "aliyun.com/gpu-count": "8"}
_UNITS: Final = (1, 2, 3, 4)


def node(number: int) -> dict[str, Any]:
    """The condition Ready, as a kubelet writes it."""
    name = f"node-{number:05}"
    return {
        "apiVersion": "v1",
        "kind": NODES.kind,
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "capacity": _AMOUNTS,
            "allocatable": _AMOUNTS,
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "Simulated", "message": "there is no kubelet"}
            ],
        },
    }


def pod(number: int) -> dict[str, Any]:
    """A pod of one of four sizes, in turn."""
    amounts = {_MEMORY: str(_UNITS[number % len(_UNITS)]), "cpu": "100m"}
    return {
        "apiVersion": "v1",
        "kind": PODS.kind,
        "metadata": {"name": f"pod-{number:05}"},
        "spec": {
            "containers": [{"name": "main", "image": "nobody/starts:it", "resources": {"limits": amounts}}],
            # Nodes without a kubelet are tainted.
            "tolerations": [{"operator": "Exists"}],
        },
    }
