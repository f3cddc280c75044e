"""The status of a pod, from what its containers do. Pure.

A running container counts as ready: probes are not run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from clusters.kubelet.pods import Container, Kind, Object, Rejection, is_restarted
from clusters.kubelet.runtime import Run


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a container does not run now."""

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class ContainerState:
    """One container: its last lives, and why it waits if it does."""

    container: Container
    runs: tuple[Run, ...]
    waiting: Waiting | None
    devices: Mapping[str, Mapping[str, bool]] = field(default_factory=dict)
    """The devices to show: resource → id → healthy."""

    @property
    def is_running(self) -> bool:
        """Whether its newest life goes on."""
        return bool(self.runs) and self.runs[-1].exit is None

    @property
    def exit_code(self) -> int | None:
        """The state of the newest life, if that has ended."""
        last = self.runs[-1].exit if self.runs else None
        return None if last is None else last.code


@dataclass(frozen=True, slots=True)
class PodState:
    """The values in a pod's status; ``started`` as Kubernetes writes a time."""

    containers: tuple[ContainerState, ...]
    policy: str
    started: str
    host_ip: str
    pod_ip: str
    stopping: bool = False
    """Nothing starts again: the pod's end was asked for."""
    rejection: Rejection | None = None
    """It was not let in."""


def phase_of(state: PodState) -> str:
    """Pending, Running, Succeeded or Failed; a pod has ended when its last container has, sidecars included."""
    if state.rejection is not None:
        return "Failed"
    apps = [c for c in state.containers if c.container.kind is Kind.APP]
    if any(c.is_running for c in state.containers):
        return _once_begun(apps)
    inits = [c for c in state.containers if c.container.kind is Kind.INIT]
    if not state.stopping and any(c.exit_code and _has_ended(c, state) for c in inits):
        return "Failed"
    if all(c.runs for c in apps) and all(_has_ended(c, state) for c in apps):
        return "Failed" if any(c.exit_code for c in apps) else "Succeeded"
    if state.stopping:
        return "Failed"
    return _once_begun(apps)


def _once_begun(apps: Iterable[ContainerState]) -> str:
    """A pod runs from when each of its containers has been started, whatever became of them."""
    return "Running" if all(c.runs for c in apps) else "Pending"


def _has_ended(one: ContainerState, state: PodState) -> bool:
    code = one.exit_code
    return code is not None and (state.stopping or not is_restarted(one.container.kind, state.policy, code))


def status_of(state: PodState, now: float, before: Sequence[Object]) -> Object:
    """The ``status`` to write; ``before`` are the conditions of the last one; their times stay if nothing changed."""
    phase = phase_of(state)
    status: Object = {"phase": phase, "startTime": state.started}
    if state.rejection is not None:
        status |= {"reason": state.rejection.reason, "message": state.rejection.message}
        if not any(c.runs for c in state.containers):
            return status
    status |= {
        "conditions": _conditions(state, phase, timestamp(now), before),
        "hostIP": state.host_ip,
        "hostIPs": [{"ip": state.host_ip}],
    }
    if state.rejection is not None:
        return status
    status |= {"podIP": state.pod_ip, "podIPs": [{"ip": state.pod_ip}]}
    inits = [c for c in state.containers if c.container.kind is not Kind.APP]
    apps = [c for c in state.containers if c.container.kind is Kind.APP]
    if inits:
        status["initContainerStatuses"] = [_container_status(c, True) for c in inits]
    return status | {"containerStatuses": [_container_status(c, bool(inits)) for c in apps]}


def _conditions(state: PodState, phase: str, now: str, before: Sequence[Object]) -> list[Object]:
    values = _condition_values(state, phase)
    known = {condition["type"]: condition for condition in before}
    conditions = []
    for name, (value, reason) in values.items():
        old: Mapping[str, Any] = known.get(name, {})
        changed = old.get("lastTransitionTime") if old.get("status") == value else None
        condition: Object = {"type": name, "status": value, "lastTransitionTime": changed or now}
        if reason or "reason" in old:
            condition["reason"] = reason or None  # in a strategic merge patch null takes a field away
        conditions.append(condition)
    return conditions


def _condition_values(state: PodState, phase: str) -> dict[str, tuple[str, str]]:
    """Condition → (status, reason). PodScheduled is the scheduler's and stays as it is."""
    if phase in ("Succeeded", "Failed"):
        reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
        ready = ("False", reason)
        initialized = "False" if state.rejection is not None else "True"
        over = {"PodReadyToStartContainers": ("False", ""), "Initialized": (initialized, reason)}
        return over | {"Ready": ready, "ContainersReady": ready}
    inits = [c for c in state.containers if c.container.kind is not Kind.APP]
    together = [c for c in state.containers if c.container.kind is not Kind.INIT]
    initialized_now = all(_is_past(c) for c in inits)
    # Also while they are being stopped: other conditions show that the pod is being deleted (measured).
    ready_now = all(c.is_running for c in together)
    ready = ("True", "") if ready_now else ("False", "ContainersNotReady")
    has_begun = any(c.runs or c.waiting for c in state.containers)
    return {
        "PodReadyToStartContainers": ("True" if has_begun else "False", ""),
        "Initialized": ("True", "") if initialized_now else ("False", "ContainersNotInitialized"),
        "Ready": ready,
        "ContainersReady": ready,
    }


def _is_past(init: ContainerState) -> bool:
    return bool(init.runs) if init.container.kind is Kind.SIDECAR else init.exit_code == 0


def _container_status(one: ContainerState, has_inits: bool) -> Object:
    previous = [run for run in one.runs if run.exit is not None]
    status: Object = {
        "name": one.container.name,
        "image": one.container.image,
        "imageID": f"simulated://{one.container.image}" if one.runs else "",
        "restartCount": one.runs[-1].attempt if one.runs else 0,
        "ready": one.is_running or (one.container.kind is Kind.INIT and one.exit_code == 0),
        "started": one.is_running,
        "state": _state(one, has_inits),
        "lastState": {},
    }
    if one.runs:
        status["containerID"] = f"simulated://{one.runs[-1].id}"
    if one.devices and one.container.kind is Kind.APP:
        status["allocatedResourcesStatus"] = [_device_status(name, ids) for name, ids in one.devices.items()]
    last = previous[:-1] if "terminated" in status["state"] else previous
    if last:
        status["lastState"] = {"terminated": _terminated(last[-1])}
    return status


def _device_status(resource: str, devices: Mapping[str, bool]) -> Object:
    healths = [{"resourceID": name, "health": "Healthy" if ok else "Unhealthy"} for name, ok in devices.items()]
    return {"name": resource, "resources": healths}


def default_waiting(containers: Sequence[Container]) -> Waiting:
    """The reason why a container waits before its first start."""
    return Waiting("PodInitializing" if any(c.kind is not Kind.APP for c in containers) else "ContainerCreating")


def _state(one: ContainerState, has_inits: bool) -> Object:
    if one.is_running:
        return {"running": {"startedAt": timestamp(one.runs[-1].started)}}
    if one.waiting is None and one.runs:
        return {"terminated": _terminated(one.runs[-1])}
    waiting = one.waiting or Waiting("PodInitializing" if has_inits else "ContainerCreating")
    return {"waiting": {"reason": waiting.reason} | ({"message": waiting.message} if waiting.message else {})}


def _terminated(run: Run) -> Object:
    assert run.exit is not None
    return {
        "exitCode": run.exit.code,
        "reason": run.exit.reason,
        "startedAt": timestamp(run.started),
        "finishedAt": timestamp(run.exit.finished),
        "containerID": f"simulated://{run.id}",
    } | ({"message": run.exit.message} if run.exit.message else {})


def timestamp(seconds: float) -> str:
    """Unix seconds as Kubernetes writes a time."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
