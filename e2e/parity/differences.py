"""The table of known differences between the embedded cluster and the real one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

TABLE: Final = Path(__file__).parent / "differences.yaml"


@dataclass(frozen=True, slots=True)
class Difference:
    """One row."""

    id: str
    embedded: str
    real: str
    reason: str
    """Why it stays, and why it can hide no defect of what is judged."""
    no_case: str = ""
    """Why no case shows it."""


def load() -> dict[str, Difference]:
    """The rows by id."""
    rows = [Difference(**entry) for entry in yaml.safe_load(TABLE.read_text())]
    return {row.id: row for row in rows}


def report(rows: dict[str, Difference]) -> str:
    """The table as text, a row a paragraph."""
    return "\n".join(
        f"{row.id}\n  embedded: {row.embedded}\n  real:     {row.real}\n  reason:   {row.reason}"
        for row in rows.values()
    )
