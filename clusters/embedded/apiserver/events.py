"""Events: what is filled in and what is refused. One without an eventTime is hardly checked, one with it is. Pure."""

from __future__ import annotations

from typing import Final

from clusters.embedded.apiserver.api_objects import Object, namespace_of
from clusters.embedded.apiserver.field_rules import qualified_name, required, wrong
from clusters.embedded.apiserver.refusals import FieldError

# Bytes of the text of an event, and of its words.
_BOUNDS: Final = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
_FOR_CLUSTER: Final = ("default", "kube-system")
# Fields that are shown even if they were never set.
_SHOWN: Final[Object] = {
    "involvedObject": {},
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}


def completed(item: Object) -> Object:
    """The event with the fields that are always shown, and without others that are empty."""
    found = {key: value for key, value in item.items() if key in _SHOWN or key == "metadata" or value not in ("", 0)}
    if isinstance(found.get("series"), dict):
        found["series"] = {"lastObservedTime": None, **found["series"]}
    return {**{key: dict(value) if isinstance(value, dict) else value for key, value in _SHOWN.items()}, **found}


def faults(item: Object) -> list[FieldError]:
    """The faults of a new event."""
    about = item.get("involvedObject")
    there = about.get("namespace", "") if isinstance(about, dict) else ""
    namespace, lenient = namespace_of(item), not item.get("eventTime")
    # Events on objects of the whole cluster stand in one of two namespaces; those with an eventTime know no other rule.
    lost = namespace not in _FOR_CLUSTER if not there else there != namespace and lenient
    errors = [wrong("involvedObject.namespace", there, "does not match event.namespace")] if lost else []
    if lenient:
        return errors
    reporter = str(item.get("reportingComponent", ""))
    errors += [wrong("reportingComponent", reporter, text) for text in qualified_name(reporter)]
    needed = ("reportingComponent", "reportingInstance", "action", "reason")
    errors += [required(key) for key in needed if not item.get(key)]
    for key, most in _BOUNDS.items():
        if len(str(item.get(key, "")).encode()) > most:
            errors.append(wrong(key, "", f"can have at most {most} characters"))
    return errors
