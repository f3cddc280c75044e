"""Nodes and pods of a simulated cluster as objects, as an API server takes them, and as large as one sends them. Pure.

A pod that is sent is about 6 kB of JSON, a node about 3 kB; what makes them so large is encoded once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from gpushare import wire
from gpushare.model.cards import CARDS_VERSION, MODE_IDS, CardFacts, NodeCards, encode_cards
from load.simulated.simulated_world import NAMESPACE, Node, Pod

_TIME: Final = "2026-01-01T00:00:00Z"
# Filling for an object up to the usual size: managed fields, and a pod's environment.
_FIELDS: Final[dict[str, Any]] = {f"f:field-{number}": {".": {}, "f:value": {}} for number in range(60)}
_MANAGED: Final = msgspec.Raw(
    msgspec.json.encode(
        [{"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": _TIME, "fieldsV1": _FIELDS}]
    )
)
_VARIABLES: Final = msgspec.Raw(
    msgspec.json.encode([{"name": f"VARIABLE_{number}", "value": "x" * 40} for number in range(40)])
)
_RUNNING: Final = {
    "phase": "Running",
    "startTime": _TIME,
    "conditions": [{"type": kind, "status": "True", "lastTransitionTime": _TIME} for kind in ("Ready", "PodScheduled")],
    "containerStatuses": [
        {
            "name": "main",
            "image": "nobody/starts:it",
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": _TIME}},
        }
    ],
}


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
    ready = {"type": "Ready", "status": "True", "reason": "Simulated", "message": "there is no kubelet"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "labels": {"gpushare": "true", "kubernetes.io/hostname": node.name, **node.labels},
            "annotations": {wire.ANNOTATION_CARDS: published_cards(node)} if node.model else {},
        },
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }


def published_cards(node: Node) -> str:
    """As our device plugin writes them on its node."""
    cards = tuple(
        CardFacts(
            index=index,
            uuid=f"GPU-{node.name}-{index}",
            model=node.model,
            mib=node.card_mib,
            units=node.card_units,
            numa=index * node.numa // node.cards,
        )
        for index in range(node.cards)
    )
    return encode_cards(NodeCards(CARDS_VERSION, MODE_IDS, "GiB", "", cards))


def pod_document(pod: Pod) -> dict[str, Any]:
    """On its node, with its card if the extender that bound it wrote one; or waiting for both."""
    annotations = {
        wire.ANNOTATION_INDEX: str(pod.card),
        wire.ANNOTATION_POD_UNITS: str(pod.units),
        wire.ANNOTATION_DEVICE_UNITS: str(pod.card_units),
        wire.ANNOTATION_ASSIGNED: "true",
    }
    amounts = {wire.RESOURCE_MEMORY: str(pod.units), "cpu": "100m"}
    resources = {"limits": amounts, "requests": amounts}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod.name,
            "namespace": NAMESPACE,
            "annotations": annotations if pod.node and pod.card is not None else {},
        },
        "spec": {
            **({"nodeName": pod.node} if pod.node else {}),
            "containers": [{"name": "main", "image": "nobody/starts:it", "resources": resources}],
            # Nodes without a kubelet are tainted.
            "tolerations": [{"operator": "Exists"}],
        },
    }


def node_object(node: Node, version: int) -> bytes:
    """A node as it is sent."""
    return _sent(node_document(node), version)


def pod_object(pod: Pod, version: int) -> bytes:
    """A pod as it is sent: one that runs, or one that has no node yet."""
    document = pod_document(pod)
    document["spec"]["containers"][0]["env"] = _VARIABLES
    document["status"] = _RUNNING if pod.node else {"phase": "Pending"}
    return _sent(document, version)


def _sent(document: dict[str, Any], version: int) -> bytes:
    metadata = document["metadata"]
    metadata |= {
        "uid": f"uid-{metadata['name']}",
        "resourceVersion": str(version),
        "creationTimestamp": _TIME,
        "managedFields": _MANAGED,
    }
    return msgspec.json.encode(document)
