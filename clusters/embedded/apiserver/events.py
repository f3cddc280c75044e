"""Events are one kind under two names: what is written as ``v1`` can be read as ``events.k8s.io/v1``, and the other way. Pure.

They are stored as ``v1``, with the fields that are shown although they are empty. The core kind is lenient unless it has an
eventTime, the newer kind is strict.
"""

from __future__ import annotations

from typing import Any, Final

from clusters.api.resources import EVENTS, EVENTS_V1, Resource
from clusters.embedded.apiserver import field_rules
from clusters.embedded.apiserver.api_objects import Object, namespace_of
from clusters.embedded.apiserver.field_rules import required, wrong
from clusters.embedded.apiserver.refusals import FieldError

# Fields that only change their name, from ``v1`` to ``events.k8s.io/v1``.
_NAMES: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
# The other way; errors use the old names.
OLD_NAMES: Final = {new: old for old, new in _NAMES.items()}
# Fields that the strict kind of events refuses.
_DEPRECATED: Final = ("deprecatedSource", "deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount")
# Bytes of the text of an event, and of its words.
_LONGEST_NOTE: Final = 1024
_LONGEST_WORD: Final = 128
_FOR_CLUSTER: Final = ("default", "kube-system")
# Fields that each version shows even if they were never set.
_SHOWN: Final[Object] = {
    "involvedObject": {},
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
_SHOWN_V1: Final[Object] = {
    "eventTime": None,
    "regarding": {},
    "deprecatedSource": {},
    "deprecatedFirstTimestamp": None,
    "deprecatedLastTimestamp": None,
}
_ALWAYS: Final = frozenset({"kind", "apiVersion", "metadata"})


def as_core(item: Object) -> Object:
    """The ``v1`` form of an Event of either form."""
    fields = {OLD_NAMES.get(key, key): value for key, value in item.items()}
    return _complete({**fields, "apiVersion": EVENTS.api_version}, _SHOWN)


def as_v1(item: Object) -> Object:
    """The ``events.k8s.io/v1`` form of an Event of either form."""
    fields = {_NAMES.get(key, key): value for key, value in item.items()}
    return _complete({**fields, "apiVersion": EVENTS_V1.api_version}, _SHOWN_V1)


def _complete(item: Object, shown: Object) -> Object:
    found = {key: value for key, value in item.items() if key in shown or key in _ALWAYS or not _empty(value)}
    if isinstance(found.get("series"), dict):
        found["series"] = {"lastObservedTime": None, **found["series"]}
    return {**{key: dict(value) if isinstance(value, dict) else value for key, value in shown.items()}, **found}


def _empty(value: Any) -> bool:
    return value is None or value == "" or value == 0


def new_event(resource: Resource, item: Object) -> list[FieldError]:
    """The faults of a new event of either kind."""
    core = resource == EVENTS
    about = item.get("involvedObject" if core else "regarding")
    about = about if isinstance(about, dict) else {}
    namespace, there = namespace_of(item), about.get("namespace", "")
    # Events on objects of the whole cluster stand in one of two namespaces; those with an eventTime know no other rule.
    lenient = core and not item.get("eventTime")
    lost = namespace not in _FOR_CLUSTER if not there else there != namespace and lenient
    errors = [wrong("involvedObject.namespace", there, "does not match event.namespace")] if lost else []
    if lenient:
        return errors
    errors += _reporter("reportingComponent" if core else "reportingController", item)
    longest = len(str(item.get("message" if core else "note", "")).encode())
    note = [wrong("message", "", f"can have at most {_LONGEST_NOTE} characters")] if longest > _LONGEST_NOTE else []
    if core:
        return errors + note
    errors = ([] if item.get("eventTime") else [required("eventTime")]) + errors
    if item.get("type") not in ("Normal", "Warning"):
        errors.append(wrong("type", "", f"has invalid value: {item.get('type', '')}"))
    errors += note + _series(item.get("series"))
    return errors + [wrong(OLD_NAMES[key], "", "needs to be unset") for key in _DEPRECATED if item.get(key)]


def _reporter(controller: str, item: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    for key in (controller, "reportingInstance", "action", "reason"):
        value = str(item.get(key, ""))
        if not value:
            errors.append(required(key))
        if key == controller:
            errors += [wrong(key, value, text) for text in field_rules.qualified_name(value)]
        elif len(value) > _LONGEST_WORD:
            errors.append(wrong(key, "", f"can have at most {_LONGEST_WORD} characters"))
    return errors


def _series(series: Any) -> list[FieldError]:
    if not isinstance(series, dict):
        return []
    count = series.get("count", 0)
    errors = [] if isinstance(count, int) and count >= 2 else [wrong("series.count", "", "should be at least 2")]
    return errors if series.get("lastObservedTime") else [*errors, required("series.lastObservedTime")]
