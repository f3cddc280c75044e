"""The columns of events, in the core form and in the one of events.k8s.io. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.tables.columns import NAME, WIDE, Column, at, number_at, since, text, text_at


def _either(event: Object, core: tuple[str, ...], new: tuple[str, ...]) -> Any:
    """A field by its name in the core form, or in the other."""
    return at(event, *core) or at(event, *new)


def _about(event: Object, key: str) -> str:
    return str(_either(event, ("involvedObject", key), ("regarding", key)) or "")


def _first(event: Object) -> Any:
    return _either(event, ("firstTimestamp",), ("deprecatedFirstTimestamp",)) or at(event, "eventTime")


def _last_seen(event: Object, now: datetime) -> str:
    if at(event, "series") is not None:
        return since(at(event, "series", "lastObservedTime"), now)
    return since(_either(event, ("lastTimestamp",), ("deprecatedLastTimestamp",)) or _first(event), now)


def _count(event: Object) -> int:
    if at(event, "series") is not None:
        return number_at(event, "series", "count")
    return number_at(event, "count") or number_at(event, "deprecatedCount") or 1


def _object(event: Object) -> str:
    kind, name = _about(event, "kind").lower(), _about(event, "name")
    return f"{kind}/{name}" if name else kind


def _source(event: Object) -> str:
    """The reporter, and its machine."""
    old = _either(event, ("source",), ("deprecatedSource",)) or {}
    component = old.get("component") or _either(event, ("reportingComponent",), ("reportingController",)) or ""
    host = old.get("host") or at(event, "reportingInstance")
    return f"{component}, {host}" if host else str(component)


COLUMNS: Final = (
    Column("Last Seen", "how long ago it last happened", _last_seen),
    text("Type", "whether it is normal", lambda event: text_at(event, "type")),
    text("Reason", "why, in a word", lambda event: text_at(event, "reason")),
    text("Object", "what it is about", _object),
    text("Subobject", "which part of it", lambda event: _about(event, "fieldPath"), WIDE),
    text("Source", "who says so", _source, WIDE),
    text("Message", "what happened", lambda event: str(_either(event, ("message",), ("note",)) or "").strip()),
    Column("First Seen", "how long ago it first happened", lambda event, now: since(_first(event), now), priority=WIDE),
    Column("Count", "how often it happened", lambda event, _: _count(event), priority=WIDE),
    Column("Name", "what the event is called", NAME.show, format="name", priority=WIDE),
)
