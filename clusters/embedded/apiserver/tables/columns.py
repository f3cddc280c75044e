"""A column of a table, and the cells that many kinds share. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from clusters.embedded.apiserver.api_objects import Object, metadata_of

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"
# Columns of this priority are for ``-o wide``; pods and nodes have some.
WIDE: Final = 1

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY

Cell = str | int | bool


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its heading, and the cell of an object at a time of day."""

    name: str
    show: Callable[[Object, datetime], Cell]
    type: str = "string"
    format: str = ""
    priority: int = 0

    def definition(self) -> Object:
        """The column as the server announces it."""
        more = {"type": self.type, "format": self.format, "description": "", "priority": self.priority}
        return {"name": self.name, **more}


def text(name: str, show: Callable[[Object], str], priority: int = 0) -> Column:
    """A column of texts that do not depend on the time of day."""
    return Column(name, lambda item, _: show(item), priority=priority)


def number(name: str, show: Callable[[Object], int], type_: str = "integer") -> Column:
    """A column of whole numbers; ``type_`` is what the server announces them as."""
    return Column(name, lambda item, _: show(item), type=type_)


def at(item: Any, *path: str) -> Any:
    """The value at a path of keys; None if the path ends before."""
    for key in path:
        item = item.get(key) if isinstance(item, dict) else None
    return item


def text_at(item: Object, *path: str) -> str:
    """The text at a path; empty if there is none."""
    return str(at(item, *path) or "")


def number_at(item: Object, *path: str) -> int:
    """The whole number at a path; 0 if there is none."""
    found = at(item, *path)
    return found if isinstance(found, int) else 0


def list_at(item: Object, *path: str) -> list[Any]:
    """The list at a path; empty if there is none."""
    found = at(item, *path)
    return found if isinstance(found, list) else []


def moment(value: Any) -> datetime | None:
    """A time as the API writes it; None for one that is absent."""
    try:
        return datetime.fromisoformat(value) if value else None
    except (TypeError, ValueError):
        return None


def since(value: Any, now: datetime) -> str:
    """How long ago a time of the API was, for people."""
    then = moment(value)
    return UNKNOWN if then is None else human_duration(now - then)


def human_duration(length: timedelta) -> str:
    """Two or three digits that matter: ``95s``, ``4m3s``, ``47m``, ``5h10m``, ``30h``, ``7d12h``, ``90d``, ``3y12d``."""
    # Towards zero; clocks of machines may be a second apart.
    seconds = int(length.total_seconds())
    if seconds < -1:
        return "<invalid>"
    if seconds < 2 * _MINUTE:
        return f"{max(seconds, 0)}s"
    for below, unit, letter, smaller, smaller_letter in _STEPS:
        if seconds < below:
            rest = seconds % unit // smaller if smaller else 0
            return f"{seconds // unit}{letter}" + (f"{rest}{smaller_letter}" if rest else "")
    return f"{seconds // _YEAR}y"


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


def label_texts(labels: Mapping[str, str] | None) -> str:
    """Labels as one text: ``a=b,c=d``."""
    return ",".join(sorted(f"{key}={value}" for key, value in (labels or {}).items())) or NONE


NAME: Final = Column("Name", lambda item, _: text_at(metadata_of(item), "name"), format="name")
AGE: Final = Column("Age", lambda item, now: since(metadata_of(item).get("creationTimestamp"), now))
