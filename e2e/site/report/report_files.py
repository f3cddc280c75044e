"""The files of a report: JSON for machines, HTML for people, JUnit XML for CI."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

import msgspec

from e2e.report.markup import readable
from e2e.report.verdict_files import write_whole
from e2e.site.report.html_page import to_html
from e2e.site.report.site_junit import to_junit
from e2e.site.report.site_verdict import verdict_of
from e2e.site.site_report import SiteReport

JSON_FILE: Final = "site_report.json"


def to_json(report: SiteReport) -> str:
    """The whole report; ``verdict`` and ``why`` follow from the rest."""
    verdict = verdict_of(report)
    document = {"verdict": verdict.title, "why": verdict.why, **msgspec.to_builtins(report, str_keys=True)}
    return msgspec.json.format(msgspec.json.encode(_readable(document)), indent=1).decode() + "\n"


def from_json(text: str | bytes) -> SiteReport:
    """The report out of the text of ``to_json``; the verdict in it is not believed. Raises ValueError for anything else.

    An earlier suite wrote ``skipped`` for a case that lacks its precondition.
    """
    try:
        document = msgspec.json.decode(text)
        match document:
            case {"cases": [*cases]}:
                document["cases"] = [_of_today(case) for case in cases]
        return msgspec.convert(document, SiteReport)
    except msgspec.MsgspecError as error:
        raise ValueError(f"not the report of a validation: {error}") from error


def _of_today(case: Any) -> Any:
    match case:
        case {"verdict": "skipped"}:
            return {**case, "verdict": "not judged", "lacks_precondition": True}
        case _:
            return case


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


_FORMS: Final = {JSON_FILE: to_json, "site_report.html": to_html, "site_report.xml": to_junit}


def make_ready(folder: Path) -> None:
    """Make the folder, try to write a file there, and remove the files of an older report. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"\0")
    for name in _FORMS:
        (folder / name).unlink(missing_ok=True)


def write_reports(report: SiteReport, folder: Path) -> list[Path]:
    """Write the report in each form, and return the files, JSON first. Raises OSError, and then no JSON is there."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, form in reversed(_FORMS.items()):
        write_whole(folder / name, form(report))
    return [folder / name for name in _FORMS]


def read_report(path: Path) -> SiteReport:
    """The report out of its JSON. Raises OSError, and ValueError if it is none."""
    try:
        return from_json(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
