"""The values that the API server fills into fields that a manifest leaves out. Pure; changes its argument."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Final

from clusters.api.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVENTS,
    EVENTS_V1,
    JOBS,
    LEASES,
    MUTATING_ADMISSION_POLICIES,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICES,
    VALIDATING_ADMISSION_POLICIES,
    Resource,
)
from clusters.embedded.apiserver import (
    events,
    job_rules,
    pod_defaults,
    policy_matching,
    rbac_rules,
)
from clusters.embedded.apiserver.api_objects import Object, is_deleting
from clusters.embedded.apiserver.refusals import bad_request

# For each kind: its fields, the name of its strategy, and the parameters of a rolling update.
_WORKLOAD: Final[dict[str, tuple[Object, str, Object]]] = {
    "deployments": (
        {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600},
        "strategy",
        {"maxUnavailable": "25%", "maxSurge": "25%"},
    ),
    "replicasets": ({"replicas": 1}, "", {}),
    "statefulsets": (
        {
            "replicas": 1,
            "podManagementPolicy": "OrderedReady",
            "revisionHistoryLimit": 10,
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        },
        "updateStrategy",
        {"partition": 0},
    ),
    "daemonsets": ({"revisionHistoryLimit": 10}, "updateStrategy", {"maxUnavailable": 1, "maxSurge": 0}),
}
_MACHINE: Final = ("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion")
_PROGRAMS: Final = ("kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture")
# The fields that a node shows even if they were never filled in.
_NODE_STATUS: Final[Object] = {
    "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
    "nodeInfo": dict.fromkeys((*_MACHINE, *_PROGRAMS), ""),
}
# The status of a new object that makes pods.
_WORKLOAD_STATUS: Final[dict[str, Object]] = {
    "deployments": {},
    "replicasets": {"replicas": 0},
    "statefulsets": {"replicas": 0, "availableReplicas": 0},
    "jobs": {},
    "daemonsets": dict.fromkeys(
        ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"), 0
    ),
}
_COUNTERS: Final = {
    "deployments": {"terminatingReplicas"},
    "replicasets": {"replicas", "terminatingReplicas"},
    "statefulsets": {"replicas", "availableReplicas", "collisionCount"},
    "daemonsets": {"currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"},
}


def set_defaults(resource: Resource, item: Object) -> None:
    """Fill in the defaults of a kind, at creation and at each change. Raises RefusalError (400) for amounts that are none."""
    defaults = _OF_KIND.get(resource) or _OF_GROUP.get(resource.api_version)
    try:
        if defaults:
            defaults(resource, item)
    except ValueError as error:
        kind, version = resource.kind, resource.api_version
        raise bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {error}') from error


def initial_status(resource: Resource, item: Object, now: str) -> Object | None:
    """The status of a new object; None: it has none yet. ``now`` is RFC 3339."""
    if resource == PODS:
        return pod_defaults.initial_status(item["spec"], now)
    if resource == NAMESPACES:
        return {"phase": "Active"}
    if resource in (RESOURCE_QUOTAS, VALIDATING_ADMISSION_POLICIES):
        return {}
    return dict(_WORKLOAD_STATUS[resource.plural]) if resource.plural in _WORKLOAD_STATUS else None


def _base64(text: str) -> str:
    """The canonical form of the text. Raises ValueError for what is not base64."""
    return b64encode(b64decode(text.replace("\r", "").replace("\n", ""), validate=True)).decode()


def _config_map(_: Resource, item: Object) -> None:
    if "binaryData" in item:
        item["binaryData"] = {key: _base64(value) for key, value in item["binaryData"].items()}


def _event(resource: Resource, item: Object) -> None:
    complete = (events.as_core if resource == EVENTS else events.as_v1)(dict(item))
    item.clear()
    item.update(complete)


def _lease(_: Resource, item: Object) -> None:
    item.setdefault("spec", {})


def _namespace(_: Resource, item: Object) -> None:
    spec = item.setdefault("spec", {})
    if not is_deleting(item):  # else its last finalizer may have gone
        spec.setdefault("finalizers", ["kubernetes"])
    item["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = item["metadata"]["name"]


def _pod(_: Resource, item: Object) -> None:
    item.setdefault("spec", {})
    pod_defaults.default_pod(item)
    _conditions(item, "lastProbeTime", "lastTransitionTime")


def _quota(_: Resource, item: Object) -> None:
    spec = item.setdefault("spec", {})
    if spec.get("hard"):
        spec["hard"] = pod_defaults.canonical_amounts(spec["hard"])


def _conditions(item: Object, *times: str) -> None:
    """Times are shown even if they were never set."""
    for condition in (item.get("status") or {}).get("conditions", []):
        for key in times:
            condition.setdefault(key, None)


def _node(_: Resource, item: Object) -> None:
    _conditions(item, "lastHeartbeatTime", "lastTransitionTime")
    spec = item.setdefault("spec", {})
    if not spec.get("unschedulable"):
        spec.pop("unschedulable", None)
    if spec.get("podCIDR"):
        spec.setdefault("podCIDRs", [spec["podCIDR"]])
    status = item.setdefault("status", {})
    for key, shown in _NODE_STATUS.items():
        status[key] = {**shown, **status.get(key, {})}
    if status.get("capacity"):
        status["capacity"] = pod_defaults.canonical_amounts(status["capacity"])
        status.setdefault("allocatable", dict(status["capacity"]))
    if status.get("allocatable"):
        status["allocatable"] = pod_defaults.canonical_amounts(status["allocatable"])


def _without_zeros(resource: Resource, status: Object) -> Object:
    """Counters that are 0 are left out, except for those that each kind always shows."""
    shown = _COUNTERS[resource.plural]
    return {key: value for key, value in status.items() if value != 0 or key in shown or value is False}


def _workload(resource: Resource, item: Object) -> None:
    spec = item.setdefault("spec", {})
    fields, strategy, parameters = _WORKLOAD[resource.plural]
    for key, value in fields.items():
        spec.setdefault(key, value)
    if strategy and spec.setdefault(strategy, {}).setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = spec[strategy].setdefault("rollingUpdate", {})
        spec[strategy]["rollingUpdate"] = {**parameters, **rolling}
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    pod_defaults.default_template(template.setdefault("spec", {}))
    if "status" in item:
        item["status"] = _without_zeros(resource, item["status"])


def _service(_: Resource, item: Object) -> None:
    """A Service. There is no proxy behind it: it has no address, and nothing answers there."""
    item.setdefault("spec", {}).setdefault("type", "ClusterIP")


def _secret(_: Resource, item: Object) -> None:
    """Fill in the type, and what was written as plain text."""
    item.setdefault("type", "Opaque")
    for key, text in item.pop("stringData", {}).items():
        item.setdefault("data", {})[key] = b64encode(text.encode()).decode()


_OF_KIND: Final[dict[Resource, Callable[[Resource, Object], None]]] = {
    CONFIG_MAPS: _config_map,
    EVENTS: _event,
    EVENTS_V1: _event,
    LEASES: _lease,
    NAMESPACES: _namespace,
    NODES: _node,
    PODS: _pod,
    RESOURCE_QUOTAS: _quota,
    SECRETS: _secret,
    SERVICES: _service,
}
_OF_GROUP: Final[dict[str, Callable[[Resource, Object], None]]] = {
    DEPLOYMENTS.api_version: _workload,
    JOBS.api_version: job_rules.set_defaults,
    MUTATING_ADMISSION_POLICIES.api_version: policy_matching.set_defaults,
    PRIORITY_CLASSES.api_version: rbac_rules.set_defaults,
    rbac_rules.GROUP_VERSION: rbac_rules.set_defaults,
}
