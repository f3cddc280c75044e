"""A trace's machines and pods as Kubernetes objects, as both ways of replaying show them to the extender. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from gpushare import wire
from load.replay.trace import TraceNode, TracePod

NAMESPACE = "replay"


def node_object(node: TraceNode) -> dict[str, Any]:
    """With its cards published, as the device plugin does; a unit stands for whatever it is in the trace."""
    cards = [
        {
            "index": index,
            "uuid": card.uuid or f"GPU-{node.name}-{index}",
            "model": card.model,
            "mib": card.units,
            "units": card.units,
        }
        for index, card in enumerate(node.cards)
    ]
    published = {"v": 1, "mode": "ids", "unit": "MiB", "boot": "", "cards": cards}
    amounts = {
        "cpu": f"{node.cpu_milli}m",
        "memory": f"{node.memory_mib}Mi",
        "pods": "1000",
        wire.RESOURCE_COUNT: str(len(node.cards)),
        wire.RESOURCE_MEMORY: str(sum(card.units for card in node.cards)),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "uid": node.name,
            "annotations": {wire.ANNOTATION_CARDS: json.dumps(published)},
        },
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def pod_object(pod: TracePod, number: int) -> dict[str, Any]:
    """The pod that came as the ``number``-th: one may come several times. Several cards are a wish for a split."""
    annotations = dict(pod.wishes)
    if pod.cards and pod.models:
        annotations[wire.WISH_MODEL] = ",".join(pod.models)
    if pod.cards > 1:
        annotations[wire.WISH_SPLIT] = ",".join([str(pod.units)] * pod.cards)
    requests = {"cpu": f"{pod.cpu_milli}m", "memory": f"{pod.memory_mib}Mi"}
    limits = {wire.RESOURCE_MEMORY: str(pod.demand)} if pod.demand else {}
    name = f"{pod.name}-{number}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": name, "annotations": annotations},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "registry.k8s.io/pause",
                    "resources": {"requests": requests | limits, "limits": limits},
                }
            ]
        },
    }


def bound(pod: dict[str, Any], node: str, shares: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """The pod as the API server shows it when it was bound there with these cards."""
    written: dict[str, str] = {}
    if len(shares) == 1:
        written[wire.ANNOTATION_INDEX] = str(shares[0][0])
    elif shares:
        written[wire.ANNOTATION_ALLOCATION] = json.dumps({"0": {str(index): units for index, units in shares}})
    metadata = pod["metadata"] | {"annotations": pod["metadata"]["annotations"] | written}
    return pod | {"metadata": metadata, "spec": pod["spec"] | {"nodeName": node}}
