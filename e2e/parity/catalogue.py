"""The behaviour that an embedded cluster must reproduce to be a valid stand-in, row by row, and the cases that prove each row.

``catalogue.yaml`` is the table. A row is proved against the real control plane (``compared: real``), or against what a real
kubelet was seen to answer (``compared: recorded``; real kubelets run on kind), or it is a known difference.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import yaml

from e2e.existing_tests import exists
from e2e.parity.differences import Difference

TABLE: Final = Path(__file__).parent / "catalogue.yaml"
_COMPARED: Final = {"real": "the real programs", "recorded": "what a real kubelet was seen to answer"}
# The behaviour that every stand-in must reproduce: API server, scheduler, kubelet.
LISTS: Final = ("G1", "G2", "G3")


@dataclass(frozen=True, slots=True)
class Row:
    """One behaviour: ``reference`` is its section in the protocol."""

    reference: str
    behaviour: str
    proved_by: tuple[str, ...] = ()
    """Ids of tests, as pytest takes them, without parameters."""
    compared: Literal["real", "recorded"] = "real"
    differs: str = ""
    """A row of the table of differences."""


def load(path: Path = TABLE) -> list[Row]:
    """The rows in order. Raises ValueError for one that is not whole."""
    try:
        return [
            Row(**{**row, "proved_by": tuple(row.get("proved_by", ()))}) for row in yaml.safe_load(path.read_text())
        ]
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{path}: {error}") from error


def findings(rows: Iterable[Row], differences: dict[str, Difference]) -> list[str]:
    """The faults of the table: rows without a proof, tests and differences that do not exist."""
    found = []
    for row in rows:
        if not row.proved_by and not row.differs:
            found.append(f"{row.reference} {row.behaviour}: nothing proves it")
        found += [f"{row.reference} {row.behaviour}: no test {name}" for name in row.proved_by if not exists(name)]
        if row.differs and row.differs not in differences:
            found.append(f"{row.reference} {row.behaviour}: no difference {row.differs}")
    return found


def report(rows: Iterable[Row]) -> str:
    """The table as text."""
    lines = []
    for row in rows:
        count = f"{len(row.proved_by)} case{'s' if len(row.proved_by) != 1 else ''}"
        how = f"known difference {row.differs}" if row.differs else f"{count}, compared with {_COMPARED[row.compared]}"
        lines.append(f"{row.reference:4} {row.behaviour}: {how}")
    return "\n".join(lines)
