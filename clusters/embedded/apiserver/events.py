"""Events: what is filled in and what is refused. Pure."""

from __future__ import annotations

from typing import Final

from clusters.embedded.apiserver.api_objects import Object, namespace_of
from clusters.embedded.apiserver.field_rules import wrong
from clusters.embedded.apiserver.refusals import FieldError

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
    """The faults of a new event: those on objects of the whole cluster stand in one of two namespaces."""
    about = item.get("involvedObject")
    there, namespace = about.get("namespace", "") if isinstance(about, dict) else "", namespace_of(item)
    is_lost = there != namespace and not item.get("eventTime") if there else namespace not in _FOR_CLUSTER
    return [wrong("involvedObject.namespace", there, "does not match event.namespace")] if is_lost else []
