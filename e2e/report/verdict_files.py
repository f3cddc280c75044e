"""The files of a report: JSON, which a run is merged with, and HTML, which follows from it."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from e2e.promises import Promise
from e2e.report.verdict_page import to_html
from e2e.report.verdict_table import Table, from_json, merged, to_json
from e2e.report.verdicts import summary

JSON_FILE: Final = "verdicts.json"
HTML_FILE: Final = "verdicts.html"
# Those of a validation; the last one is pytest's.
SITE_JSON: Final = "site_report.json"
SITE_HTML: Final = "site_report.html"
SITE_JUNIT: Final = "site_report.xml"


def add(folder: Path, run: Table, promises: Sequence[Promise]) -> Table:
    """Merge a run into the folder's table. A file that cannot be read is replaced. Raises OSError.

    One run after the other: two that end together do not lose each other's columns.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".verdicts.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            before = read(folder / JSON_FILE)
        except (FileNotFoundError, ValueError):
            before = None
        table = merged(before, run)
        write(folder, table, promises)
    return table


def write(folder: Path, table: Table, promises: Sequence[Promise]) -> list[Path]:
    """Write both files; their paths, JSON first. Raises OSError, and then no new JSON is there."""
    folder.mkdir(parents=True, exist_ok=True)
    names = (JSON_FILE, HTML_FILE) if table.site is None else (SITE_JSON, SITE_HTML)
    document, page = (folder / name for name in names)
    write_whole(page, to_html(table, promises))
    write_whole(document, to_json(table, summary(table, promises)))
    return [document, page]


def make_ready(folder: Path) -> None:
    """Make the folder, try to write a file there, and remove the files of an older validation. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"\0")
    for name in (SITE_JSON, SITE_HTML, SITE_JUNIT):
        (folder / name).unlink(missing_ok=True)


def read(path: Path) -> Table:
    """The table out of its JSON. Raises OSError, and ValueError if it is none."""
    try:
        return from_json(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all. Raises OSError."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
