"""The files of a report: JSON for machines, HTML for people, JUnit XML for CI."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from e2e.report.verdict_files import write_whole
from e2e.site.report.document import from_json, to_json
from e2e.site.report.html_page import to_html
from e2e.site.report.junit import to_junit
from e2e.site.site_report import SiteReport

JSON_FILE: Final = "site_report.json"
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
