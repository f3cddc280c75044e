"""Nodes and pods of a world as the bytes of JSON that an API server sends: a pod of about 7 kB, a node of about 3 kB."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from load.bench.worlds import CARD_UNITS, CARDS, NAMESPACE, Placed, node_name, pod_name

_MEMORY: Final = "aliyun.com/gpu-mem"
_COUNT: Final = "aliyun.com/gpu-count"
_INDEX: Final = "ALIYUN_COM_GPU_MEM_IDX"
_TIME: Final = "2026-01-01T00:00:00Z"
# What fills a pod up to the size that pods have: managed fields and environment.
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
    "ALIYUN_COM_GPU_MEM_DEV": str(CARD_UNITS),
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
_WAITING: Final = _pod({}, {}, {"phase": "Pending"})
_AMOUNTS: Final = {
    "cpu": "64", "memory": "512Gi", "pods": "110", _MEMORY: str(CARDS * CARD_UNITS), _COUNT: str(CARDS),
}  # fmt: skip
_NODE: Final = _template(
    {
        "metadata": _metadata({"labels": {"gpushare": "true", "kubernetes.io/hostname": "%(name)s"}}),
        "spec": {},
        "status": {
            "capacity": _AMOUNTS,
            "allocatable": _AMOUNTS,
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": _TIME}],
        },
    }
)


def node_object(number: int, version: int) -> bytes:
    """The node of this number."""
    return _NODE % {b"name": node_name(number).encode(), b"version": version}


def running_pod(number: int, placed: Placed, version: int) -> bytes:
    """The pod that runs at this place of a world."""
    return bound_pod(pod_name(number), placed.units, node_name(placed.node), placed.card, version)


def bound_pod(name: str, units: int, node: str, card: int, version: int) -> bytes:
    """A pod that has its card."""
    values: dict[bytes, bytes | int] = {
        b"name": name.encode(), b"units": units, b"node": node.encode(), b"card": card, b"version": version,
    }  # fmt: skip
    return _PLACED % values


def waiting_pod(name: str, units: int, version: int) -> bytes:
    """A pod that has no node yet."""
    return _WAITING % {b"name": name.encode(), b"units": units, b"version": version}
