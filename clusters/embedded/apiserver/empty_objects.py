"""The fields that an object of a kind shows even if it was never filled, as in bookmarks. Pure data."""

from __future__ import annotations

from typing import Final

from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.event_versions import as_core, as_v1

_TEMPLATE: Final[Object] = {"metadata": {}, "spec": {"containers": None}}
_MACHINE: Final = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)
NODE_STATUS: Final[Object] = {
    "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
    "nodeInfo": dict.fromkeys(_MACHINE, ""),
}
# The status of what makes pods.
WORKLOAD_STATUS: Final[dict[str, Object]] = {
    "deployments": {},
    "replicasets": {"replicas": 0},
    "statefulsets": {"replicas": 0, "availableReplicas": 0},
    "jobs": {},
    "daemonsets": dict.fromkeys(
        ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"), 0
    ),
}


def _workload(plural: str, **spec: object) -> Object:
    return {"spec": {"selector": None, "template": _TEMPLATE, **spec}, "status": WORKLOAD_STATUS[plural]}


def _event(item: Object) -> Object:
    return {key: value for key, value in item.items() if key != "apiVersion"}


EMPTY_OBJECTS: Final[dict[tuple[str, str], Object]] = {
    ("v1", "pods"): {"spec": {"containers": None}, "status": {}},
    ("v1", "nodes"): {"spec": {}, "status": NODE_STATUS},
    ("v1", "namespaces"): {"spec": {}, "status": {}},
    ("v1", "events"): _event(as_core({})),
    ("events.k8s.io/v1", "events"): _event(as_v1({})),
    ("coordination.k8s.io/v1", "leases"): {"spec": {}},
    ("apps/v1", "deployments"): _workload("deployments", replicas=0, strategy={}),
    ("apps/v1", "replicasets"): _workload("replicasets", replicas=0),
    ("apps/v1", "statefulsets"): _workload("statefulsets", replicas=0, serviceName="", updateStrategy={}),
    ("apps/v1", "daemonsets"): _workload("daemonsets", updateStrategy={}),
    ("batch/v1", "jobs"): {"spec": {"template": _TEMPLATE}, "status": {}},
    ("rbac.authorization.k8s.io/v1", "clusterroles"): {"rules": None},
    ("rbac.authorization.k8s.io/v1", "roles"): {"rules": None},
    ("rbac.authorization.k8s.io/v1", "clusterrolebindings"): {"roleRef": {"apiGroup": "", "kind": "", "name": ""}},
    ("rbac.authorization.k8s.io/v1", "rolebindings"): {"roleRef": {"apiGroup": "", "kind": "", "name": ""}},
    ("scheduling.k8s.io/v1", "priorityclasses"): {"value": 0},
}
