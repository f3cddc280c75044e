"""The defaults of a pod's spec and of a kubelet's status, as the API server fills them in. Pure; changes its argument."""

from __future__ import annotations

from typing import Any, Final

from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.api_quantities import canonical, parse, text_of

_SPEC: Final[Object] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
}
# Filled in for pods, not for templates.
_POD: Final[Object] = {"enableServiceLinks": True}
# Pods stay this long on a node that has gone, in seconds, unless they set a time themselves.
_AWAY_SECONDS: Final = 300
_AWAY_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_MODE: Final = 0o644
_TOKEN_SECONDS: Final = 3600
_PROBE: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
# Values of these fields that are as good as none.
_ZEROS: Final[dict[str, Any]] = {
    **dict.fromkeys(("hostNetwork", "hostPID", "hostIPC", "stdin", "stdinOnce", "tty", "readOnly"), False),
    **dict.fromkeys(("hostPort", "initialDelaySeconds"), 0),
}
# Maps with keys of the user's own.
_OWN_KEYS: Final = frozenset({"labels", "annotations", "matchLabels", "nodeSelector", "limits", "requests", "overhead"})
_CONTAINER: Final[Object] = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}


def default_template(spec: Object) -> None:
    """Fill in the spec of a pod or of a template. Raises ValueError for amounts that are none."""
    kept = _without_zeros(spec)
    spec.clear()
    spec.update(kept)
    for container in [*spec.get("initContainers", []), *spec.get("containers", [])]:
        _default_container(container)
    _default_volumes(spec.get("volumes", []))
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        # Two names of one field.
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    if "overhead" in spec:
        spec["overhead"] = canonical_amounts(spec["overhead"])
    for key, value in _SPEC.items():
        spec.setdefault(key, dict(value) if isinstance(value, dict) else value)


def default_pod(pod: Object) -> None:
    """Fill in the spec of a pod that is being created."""
    spec = pod["spec"]
    default_template(spec)
    for container in [*spec.get("initContainers", []), *spec.get("containers", [])]:
        _request_the_limits(container["resources"])
        if spec.get("hostNetwork"):
            _default_host_ports(container)
    for key, value in _POD.items():
        spec.setdefault(key, value)
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
    _default_parts(container)
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


def _without_zeros(spec: Any) -> Any:
    """A copy without fields that are empty texts, or another value that is as good as none."""
    if isinstance(spec, list):
        return [_without_zeros(each) for each in spec]
    if not isinstance(spec, dict):
        return spec
    return {
        key: value if key in _OWN_KEYS else _without_zeros(value)
        for key, value in spec.items()
        if value != "" and not (key in _ZEROS and value == _ZEROS[key])
    }


def _default_parts(container: Object) -> None:
    """Fill in variables, probes and hooks of a container."""
    for variable in container.get("env", []):
        source = variable.get("valueFrom", {})
        _field_of(source)
        if "resourceFieldRef" in source:
            source["resourceFieldRef"].setdefault("divisor", "0")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            _handler(container[name])
            for key, value in _PROBE.items():
                container[name].setdefault(key, value)
    for hook in container.get("lifecycle", {}).values():
        _handler(hook)


def _default_volumes(volumes: list[Object]) -> None:
    """Fill in the sources of volumes; one that has none is an empty folder."""
    for volume in volumes:
        if set(volume) <= {"name"}:
            volume["emptyDir"] = {}
        if "hostPath" in volume:
            volume["hostPath"].setdefault("type", "")
        for source in ("configMap", "secret", "downwardAPI", "projected"):
            if source in volume:
                volume[source].setdefault("defaultMode", _MODE)
        _downward(volume)
        for source in volume.get("projected", {}).get("sources", []):
            _downward(source)
            if "serviceAccountToken" in source:
                source["serviceAccountToken"].setdefault("expirationSeconds", _TOKEN_SECONDS)


def _default_host_ports(container: Object) -> None:
    """On the network of its node a container has its ports there."""
    for port in container.get("ports", []):
        port.setdefault("hostPort", port.get("containerPort", 0))


def default_status(status: Object) -> None:
    """Fill in the statuses of containers, and make one address and the list of addresses agree."""
    for part in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for container in status.get(part, []):
            for key, value in (("image", ""), ("imageID", ""), ("ready", False), ("restartCount", 0)):
                container.setdefault(key, value)
            for key in ("state", "lastState"):
                _state(container.setdefault(key, {}))
    first, addresses = status.get("podIP"), status.get("podIPs", [])
    if first and (not addresses or addresses[0].get("ip") != first):
        status["podIPs"] = [{"ip": first}]
    elif addresses and not first:
        status["podIP"] = addresses[0].get("ip", "")


def _state(state: Object) -> None:
    if "running" in state:
        state["running"].setdefault("startedAt", None)
    if "terminated" in state:
        for key, value in (("exitCode", 0), ("startedAt", None), ("finishedAt", None)):
            state["terminated"].setdefault(key, value)


def _field_of(source: Object) -> None:
    if "fieldRef" in source:
        source["fieldRef"].setdefault("apiVersion", "v1")


def _downward(source: Object) -> None:
    for item in source.get("downwardAPI", {}).get("items", []):
        _field_of(item)


def _handler(handler: Object) -> None:
    if "httpGet" in handler:
        handler["httpGet"].setdefault("path", "/")
        handler["httpGet"].setdefault("scheme", "HTTP")
    if "grpc" in handler:
        handler["grpc"].setdefault("service", "")
