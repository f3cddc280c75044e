"""``verdicts.json`` and ``verdicts.md`` of a folder: read, merged with a run, and written whole or not at all."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Mapping
from pathlib import Path

from e2e.report.pages import from_json, to_json, to_markdown
from e2e.report.verdict_table import Table, merged


def add(folder: Path, run: Table, promises: Mapping[str, tuple[str, tuple[str, ...]]]) -> Table:
    """Merge a run into the folder's table. A file that cannot be read is replaced. Raises OSError.

    One run after the other: two that end together do not lose each other's columns.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".verdicts.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        table = merged(_read(folder / "verdicts.json"), run)
        write_whole(folder / "verdicts.json", to_json(table))
        write_whole(folder / "verdicts.md", to_markdown(table, promises))
    return table


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
