"""The options of a log: the query of ``/containerLogs`` and the lines that it selects. Pure.

The same names as in PodLogOptions of the API. The last lines are counted first, then those before the time are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from clusters.kubelet.runtime import Line

_FALSE: Final = ("", "0", "false")
_NANOSECONDS: Final = 1_000_000_000


class QueryError(ValueError):
    """The query makes no sense; ``status`` is the HTTP status to answer with."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class LogOptions:
    """One question; times are Unix seconds."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail: int | None = None
    since: float | None = None
    limit: int | None = None
    """Bytes after which nothing more comes."""

    def first(self, lines: Sequence[Line]) -> int:
        """The index of the first line to show."""
        return 0 if self.tail is None else max(len(lines) - self.tail, 0)

    def text(self, lines: Sequence[Line]) -> bytes:
        """The lines as they are sent."""
        shown = [line for line in lines if self.since is None or line.time >= self.since]
        stamps = [f"{nanoseconds(line.time)} " if self.timestamps else "" for line in shown]
        return "".join(f"{stamp}{line.text}\n" for stamp, line in zip(stamps, shown, strict=True)).encode()


def options_of(query: Mapping[str, str], now: float) -> LogOptions:
    """Read a query. Raises QueryError: 400 for what is no number or time, 422 for one that cannot be meant."""
    tail = _number(query, "tailLines", 0)
    limit = _number(query, "limitBytes", 1)
    seconds = _number(query, "sinceSeconds", 1)
    since = _time(query.get("sinceTime", ""))
    if since is not None and seconds is not None:
        raise QueryError(422, "at most one of sinceTime and sinceSeconds may be given")
    return LogOptions(
        follow=_flag(query, "follow"),
        previous=_flag(query, "previous"),
        timestamps=_flag(query, "timestamps"),
        tail=tail,
        since=since if seconds is None else now - seconds,
        limit=limit,
    )


def nanoseconds(seconds: float) -> str:
    """A time as container runtimes write it before each line: RFC 3339 with nine digits of the second."""
    whole = int(seconds)
    rest = int((seconds - whole) * _NANOSECONDS)
    return f"{datetime.fromtimestamp(whole, UTC).strftime('%Y-%m-%dT%H:%M:%S')}.{rest:09}Z"


def _flag(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "").lower() not in _FALSE


def _number(query: Mapping[str, str], name: str, least: int) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    try:
        number = int(text)
    except ValueError as error:
        raise QueryError(400, f"{name}={text!r} is not a whole number") from error
    if number < least:
        raise QueryError(422, f"{name}={number} is below {least}")
    return number


def _time(text: str) -> float | None:
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError as error:
        raise QueryError(400, f"sinceTime={text!r} is not a time such as 2026-01-31T12:00:00Z") from error
