"""Nodes and pods of a simulated cluster as the JSON that an API server sends: a pod of about 7 kB, a node of about 3 kB."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from gpushare import wire
from gpushare.model.cards import CARDS_VERSION, MODE_IDS, CardFacts, NodeCards, encode_cards
from load.simulated.simulated_world import NAMESPACE, Node, Pod

_MEMORY: Final = "aliyun.com/gpu-mem"
_COUNT: Final = "aliyun.com/gpu-count"
_INDEX: Final = "ALIYUN_COM_GPU_MEM_IDX"
_TIME: Final = "2026-01-01T00:00:00Z"
# Filling for a pod up to the usual size of pods: managed fields and environment.
_VARIABLES: Final = 40
_MANAGED_FIELDS: Final = 60


def _template(value: Mapping[str, Any]) -> bytes:
    """JSON in which words like ``%(name)s`` are still to be filled in."""
    return json.dumps(value, separators=(",", ":")).encode()


def _metadata(extra: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {f"f:field-{number}": {".": {}, "f:value": {}} for number in range(_MANAGED_FIELDS)}
    managed = {"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": _TIME, "fieldsV1": fields}
    own = {"name": "%(name)s", "uid": "uid-%(name)s", "resourceVersion": "%(version)d", "creationTimestamp": _TIME}
    return own | dict(extra) | {"managedFields": [managed]}


def _pod(annotations: Mapping[str, str], node: Mapping[str, str], status: Mapping[str, Any]) -> bytes:
    amounts = {_MEMORY: "%(units)d", "cpu": "2", "memory": "4Gi"}
    container = {
        "name": "main",
        "image": "registry.example/team/application:1.2.3",
        "env": [{"name": f"VARIABLE_{number}", "value": "x" * 40} for number in range(_VARIABLES)],
        "resources": {"limits": amounts, "requests": amounts},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }
    labels = {"app": "application", "team": "bench"}
    spec = {"containers": [container], "volumes": [{"name": "data", "emptyDir": {}}], "priority": 0, **node}
    metadata = _metadata({"namespace": NAMESPACE, "labels": labels, "annotations": dict(annotations)})
    return _template({"metadata": metadata, "spec": spec, "status": dict(status)})


_ANNOTATIONS: Final = {
    _INDEX: "%(card)d",
    "ALIYUN_COM_GPU_MEM_DEV": "%(card_units)d",
    "ALIYUN_COM_GPU_MEM_POD": "%(units)d",
    "ALIYUN_COM_GPU_MEM_ASSIGNED": "true",
    "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "1767225600000000000",
}
_RUNNING: Final = {
    "phase": "Running",
    "conditions": [{"type": kind, "status": "True", "lastTransitionTime": _TIME} for kind in ("Ready", "PodScheduled")],
    "containerStatuses": [{"name": "main", "ready": True, "state": {"running": {"startedAt": _TIME}}}],
}
_PLACED: Final = _pod(_ANNOTATIONS, {"nodeName": "%(node)s"}, _RUNNING)
# Bound by an extender that writes no index of ours.
_PLACED_WITHOUT_CARD: Final = _pod({}, {"nodeName": "%(node)s"}, _RUNNING)
_WAITING: Final = _pod({}, {}, {"phase": "Pending"})
_AMOUNTS: Final = {"cpu": "64", "memory": "512Gi", "pods": "110", _MEMORY: "%(units)d", _COUNT: "%(cards)d"}
# Labels and annotations, which differ in number, are filled in as JSON.
_NODE: Final = (
    _template(
        {
            "metadata": _metadata({"labels": "%(labels)s", "annotations": "%(annotations)s"}),
            "spec": {},
            "status": {
                "capacity": _AMOUNTS,
                "allocatable": _AMOUNTS,
                "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": _TIME}],
            },
        }
    )
    .replace(b'"%(labels)s"', b"%(labels)b")
    .replace(b'"%(annotations)s"', b"%(annotations)b")
)


def node_object(node: Node, version: int) -> bytes:
    """A node; its cards are published in our annotation if their model is known."""
    labels = {"gpushare": "true", "kubernetes.io/hostname": node.name, **node.labels}
    values: dict[bytes, bytes | int] = {
        b"name": node.name.encode(),
        b"version": version,
        b"units": node.cards * node.card_units,
        b"cards": node.cards,
        b"labels": json.dumps(labels).encode(),
        b"annotations": json.dumps({wire.ANNOTATION_CARDS: published_cards(node)} if node.model else {}).encode(),
    }
    return _NODE % values


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


def pod_object(pod: Pod, version: int) -> bytes:
    """A pod that runs, or one that has no node yet."""
    values: dict[bytes, bytes | int] = {b"name": pod.name.encode(), b"units": pod.units, b"version": version}
    if not pod.node:
        return _WAITING % values
    values[b"node"] = pod.node.encode()
    if pod.card is None:
        return _PLACED_WITHOUT_CARD % values
    return _PLACED % (values | {b"card": pod.card, b"card_units": pod.card_units})
