"""Events are one kind under two names: what is written as ``v1`` can be read as ``events.k8s.io/v1``, and the other way. Pure.

They are stored as ``v1``, with the fields that are shown although they are empty. The core kind is lenient unless it has an
eventTime, the newer kind is strict.
"""

from __future__ import annotations

from typing import Any, Final

from clusters.api.resources import EVENTS, EVENTS_V1, Resource
from clusters.embedded.apiserver.api_objects import Object, namespace_of
from clusters.embedded.apiserver.field_rules import qualified_name, required, wrong
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
# Bytes of the text of an event, and of its words.
_NOTE: Final = 1024
_WORD: Final = 128
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
    there = about.get("namespace", "") if isinstance(about, dict) else ""
    namespace, lenient = namespace_of(item), core and not item.get("eventTime")
    # Events on objects of the whole cluster stand in one of two namespaces; those with an eventTime know no other rule.
    lost = namespace not in _FOR_CLUSTER if not there else there != namespace and lenient
    errors = [wrong("involvedObject.namespace", there, "does not match event.namespace")] if lost else []
    if lenient:
        return errors
    reporter = "reportingComponent" if core else "reportingController"
    errors += [wrong(reporter, item.get(reporter, ""), text) for text in qualified_name(str(item.get(reporter, "")))]
    errors += [required(key) for key in (reporter, "reportingInstance", "action", "reason") if not item.get(key)]
    bounds = {"reportingInstance": _WORD, "action": _WORD, "reason": _WORD, "message" if core else "note": _NOTE}
    for key, most in bounds.items():
        if len(str(item.get(key, "")).encode()) > most:
            errors.append(wrong(OLD_NAMES.get(key, key), "", f"can have at most {most} characters"))
    if core:
        return errors
    if not item.get("eventTime"):
        errors.append(required("eventTime"))
    if item.get("type") not in ("Normal", "Warning"):
        errors.append(wrong("type", "", f"has invalid value: {item.get('type', '')}"))
    return errors
