"""Promises of e2e.report.verdict_files."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

from e2e.report.verdict_files import add
from e2e.report.verdict_table import Case, Column, Table, Verdict, from_json


def run_on(cluster: str, case: str = "e2e/a.py::test_a") -> Table:
    """A run of one case."""
    column = Column("t", cluster, "v1", "d")
    return Table("c", {column.name: column}, {case: Case((), {column.name: Verdict("passed")})})


def test_runs_of_two_clusters_are_one_table(tmp_path: Path) -> None:
    """In both files, in a folder that is made; nothing else is left there but the lock."""
    folder = tmp_path / "new" / "artefacts"
    add(folder, run_on("embedded"), [])
    table = add(folder, run_on("kind"), [])

    assert set(table.cases["e2e/a.py::test_a"].verdicts) == {"t on embedded", "t on kind"}
    assert from_json((folder / "verdicts.json").read_text()) == table
    columns = re.findall(r'<td class="passed" data-head="([^"]*)">passed</td>', (folder / "verdicts.html").read_text())
    assert columns == ["t on embedded", "t on kind"]
    assert {path.name for path in folder.iterdir()} == {
        "verdicts.json",
        "verdicts.html",
        "verdicts.xml",
        ".verdicts.lock",
    }


@pytest.mark.parametrize("text", ["", "{", '{"form": 99}'])
def test_a_file_that_cannot_be_read_is_replaced(tmp_path: Path, text: str) -> None:
    """Half a file of another program's must not stop a run's end."""
    (tmp_path / "verdicts.json").write_text(text)

    assert add(tmp_path, run_on("kind"), []) == run_on("kind")


def test_runs_that_end_at_once_lose_nothing(tmp_path: Path) -> None:
    """Each waits for the other's table."""
    names = [f"e2e/a.py::test_{number}" for number in range(24)]
    threads = [threading.Thread(target=add, args=(tmp_path, run_on("kind", name), [])) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert set(from_json((tmp_path / "verdicts.json").read_text()).cases) == set(names)


def test_unwritable_page_is_an_error_and_leaves_whole_files(tmp_path: Path) -> None:
    """A file written before stays whole, and no partial one is left."""
    (tmp_path / "verdicts.xml").mkdir()
    with pytest.raises(OSError, match=r"verdicts\.xml"):
        add(tmp_path, run_on("kind"), [])

    assert from_json((tmp_path / "verdicts.json").read_text()) == run_on("kind")
    assert {path.name for path in tmp_path.iterdir()} == {
        "verdicts.json",
        "verdicts.html",
        "verdicts.xml",
        ".verdicts.lock",
    }
