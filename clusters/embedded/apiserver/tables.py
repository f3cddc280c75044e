"""The tables that ``kubectl get`` asks the server for: columns of pods, nodes, events, Deployments and StatefulSets; of
other kinds name and age.

Everything that answers a GET makes whole objects; here they become rows if the ``Accept`` header asks for that. Only people
(``kubectl get``) ask for tables, so encoding twice costs programs nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import msgspec

from clusters.embedded.apiserver.api_objects import Object, is_deleting, labels_of, metadata_of
from clusters.embedded.apiserver.refusals import RefusalError
from clusters.embedded.apiserver.requests import Answer, Request
from clusters.embedded.apiserver.store import event_line

_JSON: Final = ("", "application/json", "application/*", "*/*", "text/plain")
_GROUP_VERSION: Final = "meta.k8s.io/v1"
_TABLE: Final = {"as=Table", "v=v1", "g=meta.k8s.io"}
_LIST_METADATA: Final = ("resourceVersion", "continue", "remainingItemCount")

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
    show: Callable[[Object, datetime], str]
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


def _since(value: Any, now: datetime) -> str:
    """How long ago a time of the API was: ``95s``, ``4m3s``, ``47m``, ``5h10m``, ``30h``, ``7d12h``, ``90d``, ``3y12d``."""
    if not value:
        return _UNKNOWN
    seconds = max(int((now - datetime.fromisoformat(value)).total_seconds()), 0)
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


def _last_seen(event: Object, now: datetime) -> str:
    return _since(event.get("lastTimestamp") or event.get("firstTimestamp") or event.get("eventTime"), now)


def _about(event: Object) -> str:
    about = event.get("involvedObject") or {}
    return f"{str(about.get('kind') or '').lower()}/{about.get('name')}"


def _restarts(pod: Object) -> str:
    return str(sum(one.get("restartCount", 0) for one in _at(pod, "status.containerStatuses") or ()))


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
    """The reason for which containers wait, or how they ended; that of the first one counts."""
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
        _text("Restarts", _restarts),
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


def wants_table(request: Request) -> bool:
    """Is it a table that is wanted? The first form that there is counts. Raises RefusalError (406) if there is none."""
    for part in request.accept.split(","):
        media, *parameters = (word.strip() for word in part.split(";"))
        if media in _JSON and not any(word.startswith("as=") for word in parameters):
            return False
        if media in _JSON and set(parameters) >= _TABLE:
            return True
    raise RefusalError(406, "NotAcceptable", "only the following media types are accepted: application/json", {})


def shown(request: Request, answer: Answer, now: Callable[[], datetime]) -> Answer:
    """An answer of whole objects as a table; ``includeObject`` of the query decides which part of the object is in a row."""
    whole = request.params.get("includeObject") == "Object"
    if isinstance(answer.body, bytes):
        return replace(answer, body=msgspec.json.encode(_table(msgspec.json.decode(answer.body), now(), whole=whole)))
    return replace(answer, body=_tables(answer.body, now, whole=whole))


def _table(document: Object, now: datetime, *, whole: bool, with_columns: bool = True) -> Object:
    """The ``Table`` of an object or of a list."""
    version, kind = document.get("apiVersion", ""), str(document.get("kind", ""))
    items = [document]
    if isinstance(document.get("items"), list) and kind.endswith("List"):
        kind = kind.removesuffix("List")
        items = [{"kind": kind, "apiVersion": version, **item} for item in document["items"]]
    columns, metadata = _COLUMNS.get((version, kind), (_NAME, _AGE)), metadata_of(document)
    return {
        "kind": "Table",
        "apiVersion": _GROUP_VERSION,
        "metadata": {key: metadata[key] for key in _LIST_METADATA if key in metadata},
        "columnDefinitions": [column.definition() for column in columns] if with_columns else None,
        "rows": [
            {"cells": [column.show(item, now) for column in columns], "object": item if whole else _part(item)}
            for item in items
        ],
    }


def _part(item: Object) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": _GROUP_VERSION, "metadata": metadata_of(item)}


async def _tables(body: AsyncIterator[bytes], now: Callable[[], datetime], *, whole: bool) -> AsyncIterator[bytes]:
    """The events of a watch, each object as a table of one row; only the first names the columns."""
    with_columns = True
    async for chunk in body:
        lines = []
        for line in chunk.splitlines():
            event: dict[str, Any] = msgspec.json.decode(line)
            if event["type"] == "ERROR":
                lines.append(line + b"\n")
                continue
            item = _table(event["object"], now(), whole=whole, with_columns=with_columns)
            lines.append(event_line(event["type"], msgspec.json.encode(item)))
            with_columns = False
        yield b"".join(lines)
