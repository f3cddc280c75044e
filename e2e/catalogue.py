"""Tables of promises by id, the tests that prove each, and their results in a run. Pure except for ``load`` and ``write``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import yaml

from e2e.existing_tests import exists

_WORST_FIRST: Final = ("error", "failed", "skipped", "passed")


@dataclass(frozen=True, slots=True)
class Promise:
    """One row."""

    id: str
    promise: str
    proved_by: tuple[str, ...] = ()
    """Ids of tests, as pytest takes them, without parameters."""
    not_imitated: str = ""
    """What of it no cluster of ours can show, and where it is shown."""
    absent: str = ""
    """Why nothing proves it."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """One table of promises."""

    title: str
    table: Path
    """The YAML file with its rows."""
    folder: str
    """Where the ids of a run's tests show that this table belongs to it."""
    ids: tuple[str, ...]
    """All that must be there, each once."""

    def load(self, path: Path | None = None) -> list[Promise]:
        """The rows in order. Raises ValueError for one that is not whole."""
        path = path or self.table
        try:
            rows = yaml.safe_load(path.read_text())
            return [Promise(**{**row, "proved_by": tuple(row.get("proved_by", ()))}) for row in rows]
        except (TypeError, AttributeError) as error:
            raise ValueError(f"{path}: {error!r}") from error

    def findings(self, rows: Iterable[Promise]) -> list[str]:
        """Ids that are missing or doubled, promises without a proof or an excuse, tests that do not exist."""
        rows = list(rows)
        listed = [row.id for row in rows]
        found = [f"{one}: {listed.count(one)} rows" for one in self.ids if listed.count(one) != 1]
        found += [f"{one}: no such id" for one in listed if one not in self.ids]
        found += [f"{row.id}: nothing proves it" for row in rows if not row.proved_by and not row.absent]
        found += [f"{row.id}: absent, and yet proved" for row in rows if row.proved_by and row.absent]
        return found + [f"{row.id}: no test {name}" for row in rows for name in row.proved_by if not exists(name)]


def result(row: Promise, outcomes: Mapping[str, str]) -> str:
    """The result of a run for one promise: the worst outcome of its tests, of each parameter."""
    if row.absent:
        return "no test"
    seen = [
        outcome for name in row.proved_by for nodeid, outcome in outcomes.items() if nodeid.partition("[")[0] == name
    ]
    if not seen:
        return "not in this run"
    worst = next(outcome for outcome in _WORST_FIRST if outcome in seen)
    ran = sum(1 for name in row.proved_by if any(nodeid.partition("[")[0] == name for nodeid in outcomes))
    return f"{worst} ({ran} of {len(row.proved_by)} tests)"


def report(rows: Iterable[Promise], outcomes: Mapping[str, str]) -> str:
    """The table as text."""
    lines = []
    for row in rows:
        lines.append(f"{row.id} {row.promise}: {result(row, outcomes)}")
        if row.not_imitated:
            lines.append(f"        not imitated: {row.not_imitated}")
        if row.absent:
            lines.append(f"        absent: {row.absent}")
    return "\n".join(lines)


def write(catalogue: Catalogue, terminalreporter: pytest.TerminalReporter) -> None:
    """The table at the end of a run that has a test of its folder."""
    outcomes = {
        report.nodeid: outcome
        for outcome in reversed(_WORST_FIRST)
        for report in terminalreporter.stats.get(outcome, ())
    }
    if any(catalogue.folder in nodeid for nodeid in outcomes):
        terminalreporter.section(catalogue.title)
        terminalreporter.write_line(report(catalogue.load(), outcomes))
