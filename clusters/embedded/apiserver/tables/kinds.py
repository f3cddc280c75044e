"""The columns of every kind, by its apiVersion and kind. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from clusters.embedded.apiserver.api_objects import Object, is_deleting, labels_of
from clusters.embedded.apiserver.tables import pod_table
from clusters.embedded.apiserver.tables.columns import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    WIDE,
    Column,
    at,
    human_duration,
    label_texts,
    list_at,
    moment,
    number,
    number_at,
    since,
    text,
    text_at,
)

_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE: Final = "kubernetes.io/role"


def _node_status(node: Object) -> str:
    ready = [one.get("status") == "True" for one in list_at(node, "status", "conditions") if one.get("type") == "Ready"]
    words = [("Ready" if ready[-1] else "NotReady") if ready else "Unknown"]
    return ",".join(words + (["SchedulingDisabled"] if at(node, "spec", "unschedulable") else []))


def _roles(node: Object) -> str:
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels_of(node) if key.startswith(_ROLE_PREFIX)}
    roles.add(labels_of(node).get(_ROLE, ""))
    return ",".join(sorted(roles - {""})) or NONE


def _node_address(node: Object, kind: str) -> str:
    found = [one.get("address") for one in list_at(node, "status", "addresses") if one.get("type") == kind]
    return str(found[0]) if found else NONE


def _info(node: Object, key: str) -> str:
    return text_at(node, "status", "nodeInfo", key)


def _kernel(node: Object) -> str:
    architecture = _info(node, "architecture")
    return (_info(node, "kernelVersion") or UNKNOWN) + (f" ({architecture})" if architecture else "")


_NODES: Final = (
    NAME,
    text("Status", _node_status),
    text("Roles", _roles),
    AGE,
    text("Version", lambda node: _info(node, "kubeletVersion")),
    text("Internal-IP", lambda node: _node_address(node, "InternalIP"), WIDE),
    text("External-IP", lambda node: _node_address(node, "ExternalIP"), WIDE),
    text("OS-Image", lambda node: _info(node, "osImage") or UNKNOWN, WIDE),
    text("Kernel-Version", _kernel, WIDE),
    text("Container-Runtime", lambda node: _info(node, "containerRuntimeVersion") or UNKNOWN, WIDE),
)


def _size(item: Object) -> int:
    return sum(len(at(item, key) or {}) for key in ("data", "binaryData"))


def _either(event: Object, core: str, new: str) -> Any:
    """A field of an event by its name in the core form, or in that of events.k8s.io."""
    return at(event, core) or at(event, new)


def _last_seen(event: Object, now: datetime) -> str:
    if at(event, "series") is not None:
        return since(at(event, "series", "lastObservedTime"), now)
    first = _either(event, "firstTimestamp", "deprecatedFirstTimestamp") or at(event, "eventTime")
    return since(_either(event, "lastTimestamp", "deprecatedLastTimestamp") or first, now)


def _object(event: Object) -> str:
    about = _either(event, "involvedObject", "regarding") or {}
    kind, name = str(about.get("kind") or "").lower(), about.get("name")
    return f"{kind}/{name}" if name else kind


def _ready(item: Object) -> str:
    return f"{number_at(item, 'status', 'readyReplicas')}/{number_at(item, 'spec', 'replicas')}"


def _count(name: str, *path: str, type_: str = "integer") -> Column:
    return number(name, lambda item: number_at(item, *path), type_)


def _completions(item: Object) -> str:
    done, wanted = number_at(item, "status", "succeeded"), at(item, "spec", "completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallel = number_at(item, "spec", "parallelism")
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _duration(item: Object, now: datetime) -> str:
    start = moment(at(item, "status", "startTime"))
    end = moment(at(item, "status", "completionTime")) or now
    return "" if start is None else human_duration(end - start)


def _job_status(item: Object) -> str:
    met = {one.get("type") for one in list_at(item, "status", "conditions") if one.get("status") == "True"}
    words = ("Complete", "Failed", "Terminating", "Suspended", "FailureTarget", "SuccessCriteriaMet")
    if is_deleting(item):
        met.add("Terminating")
    return next((word for word in words if word in met), "Running")


_EVENTS: Final = (
    Column("Last Seen", _last_seen),
    text("Type", lambda event: text_at(event, "type")),
    text("Reason", lambda event: text_at(event, "reason")),
    text("Object", _object),
    text("Message", lambda event: str(_either(event, "message", "note") or "").strip()),
)
COLUMNS: Final[Mapping[tuple[str, str], tuple[Column, ...]]] = {
    ("v1", "Pod"): pod_table.COLUMNS,
    ("v1", "Node"): _NODES,
    ("v1", "Namespace"): (NAME, text("Status", lambda item: text_at(item, "status", "phase")), AGE),
    ("v1", "ConfigMap"): (NAME, number("Data", _size, "string"), AGE),
    ("v1", "Event"): _EVENTS,
    ("events.k8s.io/v1", "Event"): _EVENTS,
    ("apps/v1", "Deployment"): (
        NAME,
        text("Ready", _ready),
        _count("Up-to-date", "status", "updatedReplicas", type_="string"),
        _count("Available", "status", "availableReplicas", type_="string"),
        AGE,
    ),
    ("apps/v1", "ReplicaSet"): (
        NAME,
        _count("Desired", "spec", "replicas"),
        _count("Current", "status", "replicas"),
        _count("Ready", "status", "readyReplicas"),
        AGE,
    ),
    ("apps/v1", "StatefulSet"): (NAME, text("Ready", _ready), AGE),
    ("apps/v1", "DaemonSet"): (
        NAME,
        _count("Desired", "status", "desiredNumberScheduled"),
        _count("Current", "status", "currentNumberScheduled"),
        _count("Ready", "status", "numberReady"),
        _count("Up-to-date", "status", "updatedNumberScheduled"),
        _count("Available", "status", "numberAvailable"),
        text("Node Selector", lambda item: label_texts(at(item, "spec", "template", "spec", "nodeSelector"))),
        AGE,
    ),
    ("batch/v1", "Job"): (
        NAME,
        text("Status", _job_status),
        text("Completions", _completions),
        Column("Duration", _duration),
        AGE,
    ),
}


def columns_of(api_version: str, kind: str) -> tuple[Column, ...]:
    """The columns of a kind; one without columns of its own shows its name and its age."""
    return COLUMNS.get((api_version, kind), (NAME, AGE))
