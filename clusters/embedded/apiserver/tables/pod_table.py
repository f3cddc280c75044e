"""The columns of pods: what the containers' states come to in one word. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from clusters.embedded.apiserver.api_objects import Object, is_deleting
from clusters.embedded.apiserver.tables.columns import (
    AGE,
    NAME,
    NONE,
    WIDE,
    Column,
    at,
    human_duration,
    list_at,
    moment,
    number_at,
    text,
    text_at,
)

_ENDED: Final = ("Succeeded", "Failed")


@dataclass(slots=True)
class Summary:
    """A pod in a row: the word for its state, containers that are ready, restarts and when the last one was."""

    reason: str
    ready: int = 0
    restarts: int = 0
    last: datetime | None = None
    is_initializing: bool = False

    def count(self, status: Object) -> None:
        """Add the restarts of one container."""
        self.restarts += number_at(status, "restartCount")
        ended = moment(at(status, "lastState", "terminated", "finishedAt"))
        if ended is not None and (self.last is None or ended > self.last):
            self.last = ended


def summary(pod: Object) -> Summary:
    """The pod in a row."""
    reason = text_at(pod, "status", "reason") or text_at(pod, "status", "phase")
    if any(
        one.get("type") == "PodScheduled" and one.get("reason") == "SchedulingGated"
        for one in list_at(pod, "status", "conditions")
    ):
        reason = "SchedulingGated"
    found = Summary(reason)
    sidecars = _sidecars(pod)
    _initialized(pod, found, sidecars)
    if not found.is_initializing or _is_true(pod, "Initialized"):
        _running(pod, found, sidecars)
    found.reason = _leaving(pod) or found.reason
    return found


def _initialized(pod: Object, found: Summary, sidecars: set[str]) -> None:
    """The init containers one after the other, up to the first that is not done."""
    total = len(list_at(pod, "spec", "initContainers"))
    for index, status in enumerate(list_at(pod, "status", "initContainerStatuses")):
        found.count(status)
        is_sidecar = status.get("name") in sidecars
        if at(status, "state", "terminated") is not None and not number_at(status, "state", "terminated", "exitCode"):
            continue
        if is_sidecar and status.get("started"):
            found.ready += bool(status.get("ready"))
            continue
        found.reason = f"Init:{_init_word(status) or f'{index}/{total}'}"
        found.is_initializing = True
        return


def _init_word(status: Object) -> str:
    """The reason why an init container is not done; empty if it is still running."""
    terminated = at(status, "state", "terminated")
    if terminated is not None:
        return _ended_word(terminated)
    waiting = text_at(status, "state", "waiting", "reason")
    return "" if waiting == "PodInitializing" else waiting


def _running(pod: Object, found: Summary, sidecars: set[str]) -> None:
    """The containers, the first one having the last word."""
    found.restarts, found.last = 0, None
    for status in list_at(pod, "status", "initContainerStatuses"):
        if status.get("name") in sidecars:
            found.count(status)
    is_running, error = False, ""
    for status in reversed(list_at(pod, "status", "containerStatuses")):
        found.count(status)
        terminated, waiting = at(status, "state", "terminated"), text_at(status, "state", "waiting", "reason")
        if waiting:
            found.reason = waiting
        elif terminated is not None:
            found.reason = _ended_word(terminated)
            error = found.reason if terminated.get("exitCode") else error
        elif status.get("ready") and at(status, "state", "running") is not None:
            is_running = True
            found.ready += 1
    if found.reason == "Completed":
        found.reason = _completed(pod, error, is_running=is_running)


def _completed(pod: Object, error: str, *, is_running: bool) -> str:
    """The word for a pod of which one container has completed."""
    if is_running and _is_true(pod, "Ready"):
        return "Running"
    if error:
        return error
    return "NotReady" if is_running else "Completed"


def _ended_word(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _leaving(pod: Object) -> str:
    """The word for a pod that is being deleted; empty for another."""
    if not is_deleting(pod):
        return ""
    return "" if text_at(pod, "status", "phase") in _ENDED else "Terminating"


def _is_true(pod: Object, condition: str) -> bool:
    conditions = list_at(pod, "status", "conditions")
    return next((one.get("status") == "True" for one in conditions if one.get("type") == condition), False)


def _sidecars(pod: Object) -> set[str]:
    """Init containers that run beside the others."""
    return {
        str(one.get("name")) for one in list_at(pod, "spec", "initContainers") if one.get("restartPolicy") == "Always"
    }


def _ready(pod: Object) -> str:
    return f"{summary(pod).ready}/{len(list_at(pod, 'spec', 'containers')) + len(_sidecars(pod))}"


def _restarts(pod: Object, now: datetime) -> str:
    found = summary(pod)
    if not found.restarts or found.last is None:
        return str(found.restarts)
    return f"{found.restarts} ({human_duration(now - found.last)} ago)"


def _address(pod: Object) -> str:
    addresses = list_at(pod, "status", "podIPs")
    return str(addresses[0].get("ip") or NONE) if addresses else text_at(pod, "status", "podIP") or NONE


def _gates(pod: Object) -> str:
    gates = [str(one.get("conditionType")) for one in list_at(pod, "spec", "readinessGates")]
    return f"{sum(_is_true(pod, gate) for gate in gates)}/{len(gates)}" if gates else NONE


COLUMNS: Final = (
    NAME,
    text("Ready", _ready),
    text("Status", lambda pod: summary(pod).reason),
    Column("Restarts", _restarts),
    AGE,
    text("IP", _address, WIDE),
    text("Node", lambda pod: text_at(pod, "spec", "nodeName") or NONE, WIDE),
    text("Nominated Node", lambda pod: text_at(pod, "status", "nominatedNodeName") or NONE, WIDE),
    text("Readiness Gates", _gates, WIDE),
)
