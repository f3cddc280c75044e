"""Whether an event makes sense: the core kind is lenient unless it has an eventTime, the newer kind is strict. Pure."""

from __future__ import annotations

from typing import Any, Final

from clusters.embedded.apiserver import field_rules
from clusters.embedded.apiserver.api_objects import Object, namespace_of
from clusters.embedded.apiserver.field_rules import required, wrong
from clusters.embedded.apiserver.refusals import FieldError
from clusters.resources import EVENTS, Resource

# Bytes of the text of an event.
_LONGEST_NOTE: Final = 1024
_LONGEST_WORD: Final = 128
_FOR_CLUSTER: Final = ("default", "kube-system")
# Fields that the strict kind of events refuses, and their names in the error.
_DEPRECATED: Final = {
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}


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
    errors += _who("reportingComponent" if core else "reportingController", item)
    longest = len(str(item.get("message" if core else "note", "")).encode())
    note = [wrong("message", "", f"can have at most {_LONGEST_NOTE} characters")] if longest > _LONGEST_NOTE else []
    if core:
        return errors + note
    errors = ([] if item.get("eventTime") else [required("eventTime")]) + errors
    if item.get("type") not in ("Normal", "Warning"):
        errors.append(wrong("type", "", f"has invalid value: {item.get('type', '')}"))
    errors += note + _series(item.get("series"))
    return errors + [wrong(told, "", "needs to be unset") for key, told in _DEPRECATED.items() if item.get(key)]


def _who(controller: str, item: Object) -> list[FieldError]:
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
