"""Events are one kind under two names: what is written as ``v1`` can be read as ``events.k8s.io/v1``, and the other way. Pure.

They are stored as ``v1``, with the fields that are shown although they are empty.
"""

from __future__ import annotations

from typing import Any, Final

from clusters.embedded.apiserver.api_objects import Object
from clusters.resources import EVENTS, EVENTS_V1

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
# The other way.
OLD_NAMES: Final = {new: old for old, new in _NAMES.items()}
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
