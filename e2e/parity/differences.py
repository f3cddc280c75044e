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


def load(path: Path = TABLE) -> dict[str, Difference]:
    """The rows by id. Raises ValueError for a row that is not whole, or an id that comes twice."""
    rows: dict[str, Difference] = {}
    for entry in yaml.safe_load(path.read_text()) or []:
        try:
            row = Difference(**entry)
        except TypeError as error:
            raise ValueError(f"{path}: {entry}: {error}") from error
        if row.id in rows or not all((row.embedded, row.real, row.reason)):
            raise ValueError(f"{path}: row {row.id!r} comes twice or has an empty field")
        rows[row.id] = row
    return rows


def report(rows: dict[str, Difference]) -> str:
    """The table as text, a row a paragraph."""
    return "\n".join(
        f"{row.id}\n  embedded: {row.embedded}\n  real:     {row.real}\n  reason:   {row.reason}"
        for row in rows.values()
    )
