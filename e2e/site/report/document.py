"""The report as JSON, with its verdict for programs that read no more. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from e2e.site.report.markup import readable
from e2e.site.report.site_verdict import verdict_of
from e2e.site.site_report import SiteReport


def to_json(report: SiteReport) -> str:
    """The whole report; ``verdict`` and ``why`` follow from the rest."""
    verdict = verdict_of(report)
    document = {"verdict": verdict.title, "why": verdict.why, **msgspec.to_builtins(report, str_keys=True)}
    return msgspec.json.format(msgspec.json.encode(_readable(document)), indent=1).decode() + "\n"


def from_json(text: str | bytes) -> SiteReport:
    """The report out of the text of ``to_json``; the verdict in it is not believed. Raises ValueError for anything else."""
    try:
        return msgspec.json.decode(text, type=SiteReport)
    except msgspec.MsgspecError as error:
        raise ValueError(f"not the report of a validation: {error}") from error


def _readable(value: Any) -> Any:
    """Plain data, in which each text can be written and read again."""
    match value:
        case str():
            return readable(value)
        case dict():
            return {_readable(key): _readable(item) for key, item in value.items()}
        case list() | tuple():
            return [_readable(item) for item in value]
        case _:
            return value
