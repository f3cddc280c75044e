"""The values that the API server fills into fields that a manifest leaves out. Pure; changes its argument.

Those of a pod's probes, hooks, volumes and variables are left out: no program that acts on cards reads them.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Final

import yaml

from clusters.api.resources import (
    PODS,
    ROLES,
    Resource,
)
from clusters.embedded.apiserver.api_objects import Object, canonical, is_deleting, parse, text_of
from clusters.embedded.apiserver.refusals import bad_request, group_of

# A Job's selector and the labels of its pods come from its uid, so that no two Jobs share pods.
_JOB_UID: Final = "batch.kubernetes.io/controller-uid"
_JOB_NAME: Final = "batch.kubernetes.io/job-name"
_DEFAULTS: Final[Object] = yaml.safe_load(Path(__file__).with_name("defaults.yaml").read_text())
_WORKLOAD: Final = _DEFAULTS["workloads"]
# Counters that are shown although they are 0.
_SHOWN: Final = {
    plural: {*status, "terminatingReplicas", "collisionCount"} for plural, status in _DEFAULTS["statuses"].items()
}
# Pods stay this long on a node that has gone, in seconds, unless they set a time themselves.
_AWAY_SECONDS: Final = 300
_AWAY_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def set_defaults(resource: Resource, item: Object) -> None:
    """Fill in the defaults of a kind, at creation and at each change. Raises RefusalError (400) for amounts that are none."""
    for key, value in _DEFAULTS["fields"].get(resource.plural, {}).items():
        item.setdefault(key, dict(value) if isinstance(value, dict) else value)
    defaults = _workload if resource.plural in _WORKLOAD else _OF_KIND.get(resource.plural)
    try:
        if defaults:
            defaults(resource, item)
    except ValueError as error:
        kind, version = resource.kind, resource.api_version
        raise bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {error}') from error


def initial_status(resource: Resource, item: Object, now: str) -> Object | None:
    """The status of a new object; None: it has none yet. ``now`` is RFC 3339."""
    if resource == PODS:
        return _pod_status(item["spec"], now)
    found = _DEFAULTS["statuses"].get(resource.plural)
    return None if found is None else dict(found)


def _base64(text: str) -> str:
    """The canonical form of the text. Raises ValueError for what is not base64."""
    return b64encode(b64decode(text.replace("\r", "").replace("\n", ""), validate=True)).decode()


def _config_map(_: Resource, item: Object) -> None:
    if "binaryData" in item:
        item["binaryData"] = {key: _base64(value) for key, value in item["binaryData"].items()}


def _event(_: Resource, item: Object) -> None:
    """The fields that are always shown stay, and others that are empty go."""
    shown = _DEFAULTS["event"]
    found = {key: value for key, value in item.items() if key in shown or key == "metadata" or value not in ("", 0)}
    if isinstance(found.get("series"), dict):
        found["series"] = {"lastObservedTime": None, **found["series"]}
    item.clear()
    item.update(deepcopy(shown) | found)


def _namespace(_: Resource, item: Object) -> None:
    spec = item.setdefault("spec", {})
    if not is_deleting(item):  # else its last finalizer may have gone
        spec.setdefault("finalizers", ["kubernetes"])
    item["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = item["metadata"]["name"]


def _pod(_: Resource, item: Object) -> None:
    item.setdefault("spec", {})
    _default_pod(item)
    _conditions(item, "lastProbeTime", "lastTransitionTime")


def _default_template(spec: Object) -> None:
    """Fill in the spec of a pod or of a template. Raises ValueError for amounts that are none."""
    for container in [*spec.get("initContainers", []), *spec.get("containers", [])]:
        _default_container(container)
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        # Two names of one field.
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for key, value in _DEFAULTS["pod"].items():
        spec.setdefault(key, dict(value) if isinstance(value, dict) else value)


def _default_pod(pod: Object) -> None:
    """Fill in the spec of a pod that is being created."""
    spec = pod["spec"]
    _default_template(spec)
    for container in [*spec.get("initContainers", []), *spec.get("containers", [])]:
        _request_the_limits(container["resources"])
    spec.setdefault("enableServiceLinks", True)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for taint in _AWAY_TAINTS:
        _tolerate_for_a_while(spec, taint)


def _pod_status(spec: Object, now: str) -> Object:
    """The status of a pod that has just been created; ``now`` is RFC 3339."""
    status: Object = {"phase": "Pending", "qosClass": _qos_class(spec)}
    if spec.get("schedulingGates"):
        message = "Scheduling is blocked due to non-empty scheduling gates"
        condition = {"type": "PodScheduled", "status": "False", "lastProbeTime": None, "lastTransitionTime": now}
        status["conditions"] = [{**condition, "reason": "SchedulingGated", "message": message}]
    return status


def _qos_class(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort; only cpu and memory count."""
    containers = [*spec.get("initContainers", []), *spec.get("containers", [])]
    limits = [_counted(each.get("resources", {}).get("limits", {})) for each in containers]
    requests = [_counted(each.get("resources", {}).get("requests", {})) for each in containers]
    if not any(limits) and not any(requests):
        return "BestEffort"
    if all(len(limit) == 2 and limit == request for limit, request in zip(limits, requests, strict=True)):
        return "Guaranteed"
    return "Burstable"


def _canonical_amounts(amounts: Object) -> Object:
    """A list of resources with every quantity in its canonical form. Raises ValueError."""
    return {name: canonical(text_of(value)) for name, value in amounts.items()}


def _default_container(container: Object) -> None:
    resources = container.setdefault("resources", {})
    for part in ("limits", "requests"):
        if part in resources:
            resources[part] = _canonical_amounts(resources[part])
    for port in container.get("ports", []):
        port.setdefault("protocol", "TCP")
    for key, value in _DEFAULTS["container"].items():
        container.setdefault(key, value)
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image", "")))


def _request_the_limits(resources: Object) -> None:
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **resources.get("requests", {})}


def _tolerate_for_a_while(spec: Object, taint: str) -> None:
    tolerations = spec.get("tolerations", [])
    for each in tolerations:
        if each.get("key") in (taint, "", None) and each.get("effect") in ("NoExecute", "", None):
            return
    away = {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _AWAY_SECONDS}
    spec["tolerations"] = [*tolerations, away]


def _pull_policy(image: str) -> str:
    """Without a tag or with ``latest`` an image is pulled each time."""
    if "@" in image:
        return "IfNotPresent"
    _, _, tag = image.rpartition("/")[2].partition(":")
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _counted(amounts: Object) -> Object:
    return {name: parse(amounts[name]) for name in ("cpu", "memory") if name in amounts and parse(amounts[name])}


def _quota(_: Resource, item: Object) -> None:
    spec = item.setdefault("spec", {})
    if spec.get("hard"):
        spec["hard"] = _canonical_amounts(spec["hard"])


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
    for key, shown in _DEFAULTS["node"].items():
        status[key] = {**shown, **status.get(key, {})}
    if status.get("capacity"):
        status["capacity"] = _canonical_amounts(status["capacity"])
        status.setdefault("allocatable", dict(status["capacity"]))
    if status.get("allocatable"):
        status["allocatable"] = _canonical_amounts(status["allocatable"])


def _without_zeros(resource: Resource, status: Object) -> Object:
    """Counters that are 0 are left out, except for those that each kind always shows."""
    shown = _SHOWN[resource.plural]
    return {key: value for key, value in status.items() if value != 0 or key in shown or value is False}


def _workload(resource: Resource, item: Object) -> None:
    spec = item.setdefault("spec", {})
    kind = _WORKLOAD[resource.plural]
    for key, value in kind["spec"].items():
        spec.setdefault(key, deepcopy(value))
    strategy = kind.get("strategy")
    if strategy and spec.setdefault(strategy, {}).setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = spec[strategy].setdefault("rollingUpdate", {})
        spec[strategy]["rollingUpdate"] = {**kind["rolling"], **rolling}
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    _default_template(template.setdefault("spec", {}))
    if "status" in item:
        item["status"] = _without_zeros(resource, item["status"])


def _job(_: Resource, item: Object) -> None:
    spec = item.setdefault("spec", {})
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    for key, value in _DEFAULTS["job"].items():
        spec.setdefault(key, value)
    template = spec.setdefault("template", {})
    metadata = template.setdefault("metadata", {})
    _default_template(template.setdefault("spec", {}))
    if not spec["manualSelector"]:
        uid, name = item["metadata"]["uid"], item["metadata"]["name"]
        labels = {_JOB_UID: uid, _JOB_NAME: name, "controller-uid": uid, "job-name": name}
        metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
        spec.setdefault("selector", {"matchLabels": {_JOB_UID: uid}})
    if metadata.get("labels") and not item["metadata"].get("labels"):
        item["metadata"]["labels"] = dict(metadata["labels"])


def _role_binding(_: Resource, item: Object) -> None:
    for subject in item.get("subjects", []):
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", group_of(ROLES))
    item.setdefault("roleRef", {}).setdefault("apiGroup", group_of(ROLES))


def _policy(_: Resource, item: Object) -> None:
    spec = item.setdefault("spec", {})
    spec.setdefault("failurePolicy", "Fail")
    _match(spec.setdefault("matchConstraints", {}))


def _policy_binding(_: Resource, item: Object) -> None:
    spec = item.setdefault("spec", {})
    if "matchResources" in spec:
        _match(spec["matchResources"])


def _match(match: Object) -> None:
    match.setdefault("matchPolicy", "Equivalent")
    for key in ("namespaceSelector", "objectSelector"):
        match.setdefault(key, {})
    for rule in (*match.get("resourceRules", ()), *match.get("excludeResourceRules", ())):
        rule.setdefault("scope", "*")


def _service(_: Resource, item: Object) -> None:
    """A Service. There is no proxy behind it: it has no address, and nothing answers there."""
    item.setdefault("spec", {}).setdefault("type", "ClusterIP")


def _secret(_: Resource, item: Object) -> None:
    """Fill in the type, and what was written as plain text."""
    item.setdefault("type", "Opaque")
    for key, text in item.pop("stringData", {}).items():
        item.setdefault("data", {})[key] = b64encode(text.encode()).decode()


_OF_KIND: Final[dict[str, Callable[[Resource, Object], None]]] = {
    "clusterrolebindings": _role_binding,
    "configmaps": _config_map,
    "events": _event,
    "jobs": _job,
    "mutatingadmissionpolicies": _policy,
    "mutatingadmissionpolicybindings": _policy_binding,
    "namespaces": _namespace,
    "nodes": _node,
    "pods": _pod,
    "resourcequotas": _quota,
    "rolebindings": _role_binding,
    "secrets": _secret,
    "services": _service,
    "validatingadmissionpolicies": _policy,
    "validatingadmissionpolicybindings": _policy_binding,
}
