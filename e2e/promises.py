"""Promises by id (``promises.yaml``), the tests that prove each (by the marker ``promise``), and their results in a run.

Pure except for ``load``, ``proofs`` and ``write``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest
import yaml

ROOT: Final = Path(__file__).parents[1]
TABLE: Final = Path(__file__).with_name("promises.yaml")
_MARK: Final = "pytest.mark.promise"
_NOT_IMITATED: Final = "not_imitated"
_WORST_FIRST: Final = ("error", "failed", "passed", "skipped")


@dataclass(frozen=True, slots=True)
class Promise:
    """One row."""

    id: str
    text: str
    proved_by: tuple[str, ...] = ()
    """Ids of tests, as pytest takes them, without parameters."""
    not_imitated: str = ""
    """The part that the clusters do not show, or only one of them."""


def load(path: Path = TABLE) -> list[Promise]:
    """The rows in order. Raises ValueError for a table of another form."""
    table = yaml.safe_load(path.read_text())
    notes = table.pop(_NOT_IMITATED, {})
    if not all(isinstance(text, str) for text in table.values()) or not notes.keys() <= table.keys():
        raise ValueError(f"{path}: expected a text for each id, and ids of the table in {_NOT_IMITATED}")
    return [Promise(one, text, proofs().get(one, ()), notes.get(one, "")) for one, text in table.items()]


@cache
def proofs() -> Mapping[str, tuple[str, ...]]:
    """The tests of each id, whether this run has collected them or not."""
    found: dict[str, tuple[str, ...]] = {}
    for path in sorted(ROOT.glob("e2e/**/test_*.py")) + sorted(ROOT.glob("tests/**/test_*.py")):
        if _MARK in (text := path.read_text()):
            for one, test in proofs_in(text):
                found[one] = (*found.get(one, ()), f"{path.relative_to(ROOT).as_posix()}::{test}")
    return found


def proofs_in(source: str) -> Iterator[tuple[str, str]]:
    """Each id that a marker of a module names, with the test."""
    for node in ast.parse(source).body:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        for test in members:
            if not isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for mark in test.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == _MARK:
                    yield from ((str(ast.literal_eval(one)), f"{prefix}{test.name}") for one in mark.args)


def findings(rows: Iterable[Promise], proved: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Promises that no test proves, and tests that name an id that is not in the table."""
    rows = list(rows)
    unknown = proved.keys() - {row.id for row in rows}
    found = [f"{row.id}: no test proves it" for row in rows if not row.proved_by]
    return found + [f"{one}: no such promise: {test}" for one in sorted(unknown) for test in proved[one]]


def result(row: Promise, outcomes: Mapping[str, str]) -> str:
    """The result of a run for one promise: the worst outcome of its tests, of each parameter; "" if none ran."""
    seen = {nodeid: outcome for nodeid, outcome in outcomes.items() if nodeid.partition("[")[0] in row.proved_by}
    if not seen:
        return ""
    worst = next(outcome for outcome in _WORST_FIRST if outcome in seen.values())
    ran = len({nodeid.partition("[")[0] for nodeid, outcome in seen.items() if outcome != "skipped"})
    return f"{worst} ({ran} of {len(row.proved_by)} tests)"


def report(rows: Iterable[Promise], outcomes: Mapping[str, str]) -> list[str]:
    """The rows that have a result, as lines of text."""
    lines = []
    for row in rows:
        if found := result(row, outcomes):
            lines.append(f"{row.id} {row.text}: {found}")
            lines += [f"        not imitated: {row.not_imitated}"] if row.not_imitated else []
    return lines


def write(terminalreporter: pytest.TerminalReporter) -> None:
    """The table at the end of a run that has end-to-end cases."""
    outcomes = {
        report.nodeid: outcome
        for outcome in reversed(_WORST_FIRST)
        for report in terminalreporter.stats.get(outcome, ())
    }
    if any(nodeid.startswith("e2e/") for nodeid in outcomes):
        rows = load()
        if lines := report(rows, outcomes):
            terminalreporter.section(f"promises with a test in this run, of {len(rows)}")
            terminalreporter.write_line("\n".join(lines))
