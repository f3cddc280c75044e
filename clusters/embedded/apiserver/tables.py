"""The tables that ``kubectl get`` asks the server for: the columns of pods, nodes, events, Deployments and StatefulSets. Pure.

Other kinds show their names and ages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from clusters.embedded.apiserver.api_objects import Object, is_deleting, labels_of, metadata_of

_NONE: Final = "<none>"
_UNKNOWN: Final = "<unknown>"
_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY
# Below which length, which unit, and which smaller one besides it.
_STEPS: Final = (
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)
_ROLE_PREFIX: Final = "node-role.kubernetes.io/"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its heading, and the cell of an object at a time of day; ``is_wide``: for ``-o wide``."""

    name: str
    show: Callable[[Object, datetime], str | int]
    is_wide: bool = False

    def definition(self) -> Object:
        """The column as the server announces it."""
        kind = {"type": "string", "format": "name" if self.name == "Name" else "", "description": ""}
        return {"name": self.name, **kind, "priority": int(self.is_wide)}


def _text(name: str, show: Callable[[Object], str], *, is_wide: bool = False) -> Column:
    return Column(name, lambda item, _: show(item), is_wide)


def _at(item: Any, path: str) -> Any:
    """The value at a path of keys; None if the path ends before."""
    for key in path.split("."):
        item = item.get(key) if isinstance(item, dict) else None
    return item


def _field(name: str, path: str, *, empty: str = "", is_wide: bool = False) -> Column:
    return _text(name, lambda item: str(_at(item, path) or empty), is_wide=is_wide)


def _counts(name: str, *paths: str) -> Column:
    """Whole numbers, with slashes between them."""
    return _text(name, lambda item: "/".join(str(_at(item, path) or 0) for path in paths))


def _moment(value: Any) -> datetime | None:
    return datetime.fromisoformat(value) if value else None


def _since(value: Any, now: datetime) -> str:
    """How long ago a time of the API was, for people."""
    then = _moment(value)
    return _UNKNOWN if then is None else _duration(now - then)


def _duration(length: timedelta) -> str:
    """Two or three digits that matter: ``95s``, ``4m3s``, ``47m``, ``5h10m``, ``30h``, ``7d12h``, ``90d``, ``3y12d``."""
    seconds = max(int(length.total_seconds()), 0)
    if seconds < 2 * _MINUTE:
        return f"{seconds}s"
    for below, unit, letter, smaller, smaller_letter in _STEPS:
        if seconds < below:
            rest = seconds % unit // smaller if smaller else 0
            return f"{seconds // unit}{letter}" + (f"{rest}{smaller_letter}" if rest else "")
    return f"{seconds // _YEAR}y"


def _node_status(node: Object) -> str:
    ready = [one.get("status") == "True" for one in _at(node, "status.conditions") or () if one.get("type") == "Ready"]
    words = [("Ready" if ready[-1] else "NotReady") if ready else "Unknown"]
    return ",".join(words + (["SchedulingDisabled"] if _at(node, "spec.unschedulable") else []))


def _roles(node: Object) -> str:
    return ",".join(sorted(key.removeprefix(_ROLE_PREFIX) for key in labels_of(node) if key.startswith(_ROLE_PREFIX)))


def _node_address(node: Object, kind: str) -> str:
    found = [one.get("address") for one in _at(node, "status.addresses") or () if one.get("type") == kind]
    return str(found[0]) if found else _NONE


def _kernel(node: Object) -> str:
    architecture = _at(node, "status.nodeInfo.architecture")
    return (_at(node, "status.nodeInfo.kernelVersion") or _UNKNOWN) + (f" ({architecture})" if architecture else "")


def _last_seen(event: Object, now: datetime) -> str:
    return _since(event.get("lastTimestamp") or event.get("firstTimestamp") or event.get("eventTime"), now)


def _about(event: Object) -> str:
    about = event.get("involvedObject") or {}
    return f"{str(about.get('kind') or '').lower()}/{about.get('name')}"


def _restarts(pod: Object, now: datetime) -> str:
    statuses = _at(pod, "status.containerStatuses") or ()
    count = sum(one.get("restartCount", 0) for one in statuses)
    ends = [moment for one in statuses if (moment := _moment(_at(one, "lastState.terminated.finishedAt")))]
    return f"{count} ({_duration(now - max(ends))} ago)" if count and ends else str(count)


def _ready(pod: Object) -> str:
    sidecars = _sidecars(pod)
    statuses = [one for one in _at(pod, "status.initContainerStatuses") or () if one.get("name") in sidecars]
    ready = sum(bool(one.get("ready")) for one in [*statuses, *(_at(pod, "status.containerStatuses") or ())])
    return f"{ready}/{len(_at(pod, 'spec.containers') or ()) + len(sidecars)}"


def _sidecars(pod: Object) -> set[str]:
    """Init containers that run beside the others."""
    return {one["name"] for one in _at(pod, "spec.initContainers") or () if one.get("restartPolicy") == "Always"}


def _pod_status(pod: Object) -> str:
    """The state of a pod in one word."""
    phase = str(_at(pod, "status.phase") or "")
    if is_deleting(pod) and phase not in ("Succeeded", "Failed"):
        return "Terminating"
    if any(one.get("reason") == "SchedulingGated" for one in _at(pod, "status.conditions") or ()):
        return "SchedulingGated"
    return _init_word(pod) or _running_word(pod, str(_at(pod, "status.reason") or phase))


def _init_word(pod: Object) -> str:
    """The init container that is not done; empty if there is none."""
    sidecars = _sidecars(pod)
    for index, status in enumerate(_at(pod, "status.initContainerStatuses") or ()):
        terminated, waiting = _at(status, "state.terminated"), _at(status, "state.waiting.reason")
        if (terminated and not terminated.get("exitCode")) or (
            status.get("name") in sidecars and status.get("started")
        ):
            continue
        word = _ended_word(terminated) if terminated else "" if waiting == "PodInitializing" else waiting
        total = len(_at(pod, "spec.initContainers") or ())
        return f"Init:{word or f'{index}/{total}'}"
    return ""


def _running_word(pod: Object, word: str) -> str:
    """What the containers wait for, or how they ended; the first one has the last word."""
    is_running, error = False, ""
    for status in reversed(_at(pod, "status.containerStatuses") or ()):
        terminated, waiting = _at(status, "state.terminated"), _at(status, "state.waiting.reason")
        if waiting:
            word = waiting
        elif terminated is not None:
            word = _ended_word(terminated)
            error = word if terminated.get("exitCode") else error
        elif status.get("ready"):
            is_running = True
    if word != "Completed":
        return word
    return error or ("Running" if is_running else word)


def _ended_word(terminated: Object) -> str:
    return str(terminated.get("reason") or f"ExitCode:{terminated.get('exitCode', 0)}")


_NAME: Final = _field("Name", "metadata.name")
_AGE: Final = Column("Age", lambda item, now: _since(metadata_of(item).get("creationTimestamp"), now))
_COLUMNS: Final[Mapping[tuple[str, str], tuple[Column, ...]]] = {
    ("v1", "Pod"): (
        _NAME,
        _text("Ready", _ready),
        _text("Status", _pod_status),
        Column("Restarts", _restarts),
        _AGE,
        _field("IP", "status.podIP", empty=_NONE, is_wide=True),
        _field("Node", "spec.nodeName", empty=_NONE, is_wide=True),
        _field("Nominated Node", "status.nominatedNodeName", empty=_NONE, is_wide=True),
        _text("Readiness Gates", lambda _: _NONE, is_wide=True),
    ),
    ("v1", "Node"): (
        _NAME,
        _text("Status", _node_status),
        _text("Roles", lambda node: _roles(node) or _NONE),
        _AGE,
        _field("Version", "status.nodeInfo.kubeletVersion"),
        _text("Internal-IP", lambda node: _node_address(node, "InternalIP"), is_wide=True),
        _text("External-IP", lambda node: _node_address(node, "ExternalIP"), is_wide=True),
        _field("OS-Image", "status.nodeInfo.osImage", empty=_UNKNOWN, is_wide=True),
        _text("Kernel-Version", _kernel, is_wide=True),
        _field("Container-Runtime", "status.nodeInfo.containerRuntimeVersion", empty=_UNKNOWN, is_wide=True),
    ),
    ("v1", "Event"): (
        Column("Last Seen", _last_seen),
        _field("Type", "type"),
        _field("Reason", "reason"),
        _text("Object", _about),
        _text("Message", lambda event: str(event.get("message") or "").strip()),
    ),
    ("apps/v1", "Deployment"): (
        _NAME,
        _counts("Ready", "status.readyReplicas", "spec.replicas"),
        _counts("Up-to-date", "status.updatedReplicas"),
        _counts("Available", "status.availableReplicas"),
        _AGE,
    ),
    ("apps/v1", "StatefulSet"): (_NAME, _counts("Ready", "status.readyReplicas", "spec.replicas"), _AGE),
}


def columns_of(api_version: str, kind: str) -> tuple[Column, ...]:
    """The columns of a kind."""
    return _COLUMNS.get((api_version, kind), (_NAME, _AGE))
