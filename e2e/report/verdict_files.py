"""The files of a folder of verdicts: JSON, which is merged with each run, and HTML and JUnit XML, which follow from it."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from e2e.promises import Promise
from e2e.report.junit_suites import to_junit
from e2e.report.promise_verdicts import summary
from e2e.report.verdict_page import to_html
from e2e.report.verdict_table import Table, from_json, merged, to_json

JSON_FILE: Final = "verdicts.json"
HTML_FILE: Final = "verdicts.html"
_FORMS: Final[dict[str, Callable[[Table, Sequence[Promise]], str]]] = {
    JSON_FILE: lambda table, promises: to_json(table, summary(table, promises)),
    HTML_FILE: to_html,
    "verdicts.xml": lambda table, promises: to_junit(table, {row.id: row for row in promises}),
}


def add(folder: Path, run: Table, promises: Sequence[Promise]) -> Table:
    """Merge a run into the folder's table. A file that cannot be read is replaced. Raises OSError.

    One run after the other: two that end together do not lose each other's columns.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".verdicts.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        table = merged(_read(folder / JSON_FILE), run)
        write(folder, table, promises)
    return table


def write(folder: Path, table: Table, promises: Sequence[Promise]) -> list[Path]:
    """Write the table in each form, JSON first; the files. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, form in _FORMS.items():
        write_whole(folder / name, form(table, promises))
    return [folder / name for name in _FORMS]


def _read(path: Path) -> Table | None:
    try:
        return from_json(path.read_text())
    except (FileNotFoundError, ValueError):
        return None


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all. Raises OSError."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as file:
        new = Path(file.name)
        try:
            file.write(text)
            file.close()
            new.chmod(0o644)
            new.replace(path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise
