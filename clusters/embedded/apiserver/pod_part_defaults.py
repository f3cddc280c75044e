"""The defaults of the parts of a pod's spec: volumes, variables, probes, ports. Pure; changes its argument."""

from __future__ import annotations

from typing import Any, Final

from clusters.embedded.apiserver.api_objects import Object

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


def without_zeros(spec: Any) -> Any:
    """A copy without fields that are empty texts, or another value that is as good as none."""
    if isinstance(spec, list):
        return [without_zeros(each) for each in spec]
    if not isinstance(spec, dict):
        return spec
    return {
        key: value if key in _OWN_KEYS else without_zeros(value)
        for key, value in spec.items()
        if value != "" and not (key in _ZEROS and value == _ZEROS[key])
    }


def default_container(container: Object) -> None:
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


def default_volumes(volumes: list[Object]) -> None:
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


def default_host_ports(containers: list[Object]) -> None:
    """On the network of its node a container has its ports there."""
    for container in containers:
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
