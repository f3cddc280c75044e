"""Nodes and pods of a simulated cluster as small objects, for an API server that keeps them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gpushare import wire
from load.simulated.simulated_objects import published_cards
from load.simulated.simulated_world import NAMESPACE, Node, Pod, World

_TIME: Final = "2026-01-01T00:00:00Z"


def needed_by_pods() -> Iterator[dict[str, Any]]:
    """Their namespace, and the account without which no pod is taken."""
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}, "status": {"phase": "Active"}}
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": NAMESPACE}}


def node_document(node: Node) -> dict[str, Any]:
    """Ready, with its cards as our plugin publishes them if their model is known."""
    amounts = {
        "cpu": "64",
        "memory": "512Gi",
        "pods": "500",
        wire.RESOURCE_MEMORY: str(node.cards * node.card_units),
        wire.RESOURCE_COUNT: str(node.cards),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "labels": {"gpushare": "true", "kubernetes.io/hostname": node.name, **node.labels},
            "annotations": {wire.ANNOTATION_CARDS: published_cards(node)} if node.model else {},
        },
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "Simulated", "message": "there is no kubelet"}
            ],
        },
    }


def pod_document(pod: Pod) -> dict[str, Any]:
    """On its node, with its card, and reported as running; or waiting for both."""
    annotations = {
        wire.ANNOTATION_INDEX: str(pod.card),
        wire.ANNOTATION_POD_UNITS: str(pod.units),
        wire.ANNOTATION_DEVICE_UNITS: str(pod.card_units),
        wire.ANNOTATION_ASSIGNED: "true",
    }
    amounts = {wire.RESOURCE_MEMORY: str(pod.units), "cpu": "100m"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod.name,
            "namespace": NAMESPACE,
            "annotations": annotations if pod.node else {},
        },
        "spec": {
            **({"nodeName": pod.node} if pod.node else {}),
            "containers": [
                {"name": "main", "image": "nobody/starts:it", "resources": {"limits": amounts, "requests": amounts}}
            ],
            # Nodes without a kubelet are tainted.
            "tolerations": [{"operator": "Exists"}],
        },
    }


def kept(world: World, uid: str) -> dict[str, Any]:
    """The same as the saved state of an embedded API server: with versions, uids and, of pods, that they run."""
    objects = []
    nodes, pods = map(node_document, world.nodes), map(pod_document, world.running)
    for version, item in enumerate((*needed_by_pods(), *nodes, *pods), start=2):
        item["metadata"] |= {"uid": f"{uid}-{version}", "resourceVersion": str(version), "creationTimestamp": _TIME}
        if item["kind"] == "Pod":
            item["status"] = {"phase": "Running", "startTime": _TIME, "containerStatuses": [_runs(item)]}
        objects.append(item)
    return {"format": 1, "version": len(objects) + 1, "objects": objects}


def _runs(pod: dict[str, Any]) -> dict[str, Any]:
    (container,) = pod["spec"]["containers"]
    status = {"name": container["name"], "image": container["image"], "imageID": "", "ready": True, "restartCount": 0}
    return status | {"state": {"running": {"startedAt": _TIME}}}
