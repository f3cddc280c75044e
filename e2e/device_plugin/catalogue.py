"""The promises by id, the tests that prove each, and what a run has shown of them. Pure but for ``load``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from e2e.existing_tests import exists

TABLE: Final = Path(__file__).parent / "catalogue.yaml"
# Where the ids of a run's tests show that this table belongs to it.
FOLDER: Final = "e2e/device_plugin/"
IDS: Final = (*(f"DP-{number:03}" for number in range(1, 24)), *(f"PR-{number:03}" for number in range(1, 7)))
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


def load(path: Path = TABLE) -> list[Promise]:
    """The rows in order. Raises ValueError for one that is not whole."""
    try:
        return [Promise(**{**row, "proved_by": tuple(row["proved_by"])}) for row in yaml.safe_load(path.read_text())]
    except (TypeError, KeyError) as error:
        raise ValueError(f"{path}: {error!r}") from error


def findings(rows: Iterable[Promise]) -> list[str]:
    """Ids that are missing or doubled, promises that nothing proves, tests that are not there."""
    listed = [row.id for row in rows]
    found = [f"{one}: {listed.count(one)} rows" for one in IDS if listed.count(one) != 1]
    found += [f"{one}: no such id" for one in listed if one not in IDS]
    found += [f"{row.id}: nothing proves it" for row in rows if not row.proved_by]
    return found + [f"{row.id}: no test {name}" for row in rows for name in row.proved_by if not exists(name)]


def result(row: Promise, outcomes: Mapping[str, str]) -> str:
    """What a run has shown of one promise: the worst outcome of its tests, of each parameter."""
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
            lines.append(f"       not imitated: {row.not_imitated}")
    return "\n".join(lines)
