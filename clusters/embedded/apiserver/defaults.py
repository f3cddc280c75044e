"""The values that the API server fills into fields that a manifest leaves out. Pure; changes its argument."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Final

from clusters.embedded.apiserver import (
    event_versions,
    job_rules,
    pod_defaults,
    policy_matching,
    rbac_rules,
    service_defaults,
)
from clusters.embedded.apiserver.api_objects import Object, is_deleting
from clusters.embedded.apiserver.empty_objects import NODE_STATUS, WORKLOAD_STATUS
from clusters.embedded.apiserver.pod_part_defaults import default_status
from clusters.embedded.apiserver.refusals import bad_request
from clusters.resources import (
    CONFIG_MAPS,
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

_ROLLING: Final[Object] = {
    "deployments": {"strategy": {"type": "RollingUpdate"}},
    "statefulsets": {"updateStrategy": {"type": "RollingUpdate"}},
    "daemonsets": {"updateStrategy": {"type": "RollingUpdate"}},
}
_ROLLING_PARAMETERS: Final[Object] = {
    "deployments": {"maxUnavailable": "25%", "maxSurge": "25%"},
    "statefulsets": {"partition": 0},
    "daemonsets": {"maxUnavailable": 1, "maxSurge": 0},
}
_WORKLOAD: Final[Object] = {
    "deployments": {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600},
    "replicasets": {"replicas": 1},
    "statefulsets": {
        "replicas": 1,
        "podManagementPolicy": "OrderedReady",
        "revisionHistoryLimit": 10,
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
    },
    "daemonsets": {"revisionHistoryLimit": 10},
}


# Whole groups of four signs, and the last one with what fills it up.
_BASE64: Final = re.compile(r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_BASE64_SIGNS: Final = re.compile(r"[A-Za-z0-9+/]*")
_OF_ELECTIONS: Final = ("strategy", "preferredHolder")
_COUNTERS: Final = {
    "deployments": {"terminatingReplicas"},
    "replicasets": {"replicas", "terminatingReplicas"},
    "statefulsets": {"replicas", "availableReplicas", "collisionCount"},
    "daemonsets": {"currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"},
}
_DEFAULTS: Final[dict[str, Callable[[Resource, Object], None]]] = {
    rbac_rules.GROUP_VERSION: rbac_rules.set_defaults,
    PRIORITY_CLASSES.api_version: rbac_rules.set_defaults,
    JOBS.api_version: job_rules.set_defaults,
    MUTATING_ADMISSION_POLICIES.api_version: policy_matching.set_defaults,
}
_EVENTS: Final = {EVENTS: event_versions.as_core, EVENTS_V1: event_versions.as_v1}


def set_defaults(resource: Resource, item: Object) -> None:
    """Fill in the defaults of a kind, at creation and at each change. Raises RefusalError (400) for amounts that are none."""
    try:
        _set_defaults(resource, item)
    except ValueError as error:
        kind, version = resource.kind, resource.api_version
        raise bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {error}') from error


def _set_defaults(resource: Resource, item: Object) -> None:
    if resource == RESOURCE_QUOTAS:
        _quota(item)
    elif resource == SERVICES:
        service_defaults.set_defaults(item)
    elif resource == SECRETS:
        service_defaults.set_secret_defaults(item)
    elif resource == LEASES:
        # Fields of co-ordinated elections are dropped if these are off, as they are by default.
        item["spec"] = {key: value for key, value in item.get("spec", {}).items() if key not in _OF_ELECTIONS}
    elif resource == CONFIG_MAPS and "binaryData" in item:
        item["binaryData"] = {key: _base64(value) for key, value in item["binaryData"].items()}
    else:
        _set_other_defaults(resource, item)


def _complete_event(resource: Resource, item: Object) -> None:
    complete = _EVENTS[resource](dict(item))
    item.clear()
    item.update(complete)


def _quota(item: Object) -> None:
    spec = item.setdefault("spec", {})
    if spec.get("hard"):
        spec["hard"] = pod_defaults.canonical_amounts(spec["hard"])


def _set_other_defaults(resource: Resource, item: Object) -> None:
    if resource == PODS:
        item.setdefault("spec", {})
        pod_defaults.default_pod(item)
        _conditions(item, "lastProbeTime", "lastTransitionTime")
        default_status(item.get("status") or {})
    elif resource == NODES:
        _node(item)
    elif resource == NAMESPACES:
        spec = item.setdefault("spec", {})
        if not is_deleting(item):  # else its last finalizer may have gone
            spec.setdefault("finalizers", ["kubernetes"])
        item["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = item["metadata"]["name"]
    elif resource.api_version in _DEFAULTS:
        _DEFAULTS[resource.api_version](resource, item)
    elif resource in _EVENTS:
        _complete_event(resource, item)
    elif resource.api_version == "apps/v1":
        _workload(resource, item.setdefault("spec", {}))
        item |= {"status": _without_zeros(resource, item["status"])} if "status" in item else {}


def initial_status(resource: Resource, item: Object, now: str) -> Object | None:
    """The status of a new object; None: it has none yet. ``now`` is RFC 3339."""
    if resource == PODS:
        return pod_defaults.initial_status(item["spec"], now)
    if resource == NAMESPACES:
        return {"phase": "Active"}
    if resource in (RESOURCE_QUOTAS, VALIDATING_ADMISSION_POLICIES):
        return {}
    return dict(WORKLOAD_STATUS[resource.plural]) if resource.plural in WORKLOAD_STATUS else None


def _base64(text: str) -> str:
    """The canonical form of the text. Raises ValueError with the place at which it has no meaning."""
    text = text.replace("\r", "").replace("\n", "")
    good = _BASE64.match(text)
    end = good.end() if good else 0
    if end < len(text):
        strange = _BASE64_SIGNS.match(text, end)
        at = strange.end() if strange and strange.end() < len(text) else end
        raise ValueError(f"illegal base64 data at input byte {at}")
    return b64encode(b64decode(text)).decode()


def _conditions(item: Object, *times: str) -> None:
    """Times are shown even if they were never set."""
    for condition in (item.get("status") or {}).get("conditions", []):
        for key in times:
            condition.setdefault(key, None)


def _node(item: Object) -> None:
    _conditions(item, "lastHeartbeatTime", "lastTransitionTime")
    spec = item.setdefault("spec", {})
    if not spec.get("unschedulable"):
        spec.pop("unschedulable", None)
    if spec.get("podCIDR"):
        spec.setdefault("podCIDRs", [spec["podCIDR"]])
    status = item.setdefault("status", {})
    for key, shown in NODE_STATUS.items():
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


def _workload(resource: Resource, spec: Object) -> None:
    for key, value in _WORKLOAD[resource.plural].items():
        spec.setdefault(key, value)
    for key, value in _ROLLING.get(resource.plural, {}).items():
        strategy = spec.setdefault(key, {})
        strategy.setdefault("type", value["type"])
        if strategy["type"] == "RollingUpdate":
            parameters = strategy.setdefault("rollingUpdate", {})
            for name, default in _ROLLING_PARAMETERS[resource.plural].items():
                parameters.setdefault(name, default)
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    pod_defaults.default_template(template.setdefault("spec", {}))
