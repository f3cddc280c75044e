"""API objects as decoded JSON, and what all of them have."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def metadata_of(item: Object) -> Object:
    """The metadata; empty if there is none."""
    return item.get("metadata") or {}


def name_of(item: Object) -> str:
    """The name, or an empty text."""
    return str(metadata_of(item).get("name") or "")


def namespace_of(item: Object) -> str:
    """The namespace; an empty text for an object of the whole cluster."""
    return str(metadata_of(item).get("namespace") or "")


def uid_of(item: Object) -> str:
    """The uid: an object created again under its name has another one."""
    return str(metadata_of(item).get("uid") or "")


def labels_of(item: Object) -> dict[str, str]:
    """The labels; empty if there are none."""
    return metadata_of(item).get("labels") or {}


def is_deleting(item: Object) -> bool:
    """Has a client asked to delete it?"""
    return bool(metadata_of(item).get("deletionTimestamp"))


# Fields that are maps of texts or of amounts: an empty one is as good as none.
_TEXTS = ("labels", "annotations", "data", "binaryData", "matchLabels", "nodeSelector")
_AMOUNTS = ("limits", "requests", "capacity", "allocatable")
_MAPS = frozenset({*_TEXTS, *_AMOUNTS, "overhead"})
# The values that stand for null in them.
_ZEROS = dict.fromkeys(_TEXTS, "") | dict.fromkeys(_AMOUNTS, "0")
# Lists that are shown although they are empty.
_SHOWN_LISTS = frozenset({"rules", "verbs", "items"})


def without_empties(item: Object) -> Object:
    """A copy without lists and maps that are empty: to the API that is the same as if they were absent."""
    kept: Object = {}
    for key, value in item.items():
        if isinstance(value, dict):
            if value or key not in _MAPS:
                kept[key] = without_empties(value)
        elif isinstance(value, list):
            if value or key in _SHOWN_LISTS:
                kept[key] = [without_empties(each) if isinstance(each, dict) else each for each in value]
        else:
            kept[key] = value
    return kept


def _filled(value: Any, zero: str) -> Any:
    if not isinstance(value, dict):
        return without_nulls(value)
    return {key: zero if each is None else each for key, each in value.items()}


def without_nulls(value: Any) -> Any:
    """A copy in which fields that are null are absent: to the API both mean the zero value."""
    if isinstance(value, dict):
        return {
            key: _filled(each, _ZEROS[key]) if key in _ZEROS else without_nulls(each)
            for key, each in value.items()
            if each is not None
        }
    if isinstance(value, list):
        return [without_nulls(each) for each in value]
    return value
