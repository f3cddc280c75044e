"""The defaults of a pod's spec, as the API server fills them in. Pure; changes its argument.

Those of probes, hooks, volumes and variables are left out: no program that acts on cards reads them.
"""

from __future__ import annotations

from typing import Final

from clusters.embedded.apiserver.api_objects import Object, canonical, parse, text_of

_SPEC: Final[Object] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
}
# Pods stay this long on a node that has gone, in seconds, unless they set a time themselves.
_AWAY_SECONDS: Final = 300
_AWAY_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_CONTAINER: Final[Object] = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}


def default_template(spec: Object) -> None:
    """Fill in the spec of a pod or of a template. Raises ValueError for amounts that are none."""
    for container in [*spec.get("initContainers", []), *spec.get("containers", [])]:
        _default_container(container)
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        # Two names of one field.
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for key, value in _SPEC.items():
        spec.setdefault(key, dict(value) if isinstance(value, dict) else value)


def default_pod(pod: Object) -> None:
    """Fill in the spec of a pod that is being created."""
    spec = pod["spec"]
    default_template(spec)
    for container in [*spec.get("initContainers", []), *spec.get("containers", [])]:
        _request_the_limits(container["resources"])
    spec.setdefault("enableServiceLinks", True)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for taint in _AWAY_TAINTS:
        _tolerate_for_a_while(spec, taint)


def initial_status(spec: Object, now: str) -> Object:
    """The status of a pod that has just been created; ``now`` is RFC 3339."""
    status: Object = {"phase": "Pending", "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        message = "Scheduling is blocked due to non-empty scheduling gates"
        condition = {"type": "PodScheduled", "status": "False", "lastProbeTime": None, "lastTransitionTime": now}
        status["conditions"] = [{**condition, "reason": "SchedulingGated", "message": message}]
    return status


def qos_class(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort; only cpu and memory count."""
    containers = [*spec.get("initContainers", []), *spec.get("containers", [])]
    limits = [_counted(each.get("resources", {}).get("limits", {})) for each in containers]
    requests = [_counted(each.get("resources", {}).get("requests", {})) for each in containers]
    if not any(limits) and not any(requests):
        return "BestEffort"
    if all(len(limit) == 2 and limit == request for limit, request in zip(limits, requests, strict=True)):
        return "Guaranteed"
    return "Burstable"


def canonical_amounts(amounts: Object) -> Object:
    """A list of resources with every quantity in its canonical form. Raises ValueError."""
    return {name: canonical(text_of(value)) for name, value in amounts.items()}


def _default_container(container: Object) -> None:
    resources = container.setdefault("resources", {})
    for part in ("limits", "requests"):
        if part in resources:
            resources[part] = canonical_amounts(resources[part])
    for port in container.get("ports", []):
        port.setdefault("protocol", "TCP")
    for key, value in _CONTAINER.items():
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
