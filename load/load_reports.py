"""The parts of all reports: tables, promises with what was found, the machine."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

# A load above this for each processor: others are at work.
_BUSY: Final = 0.5


class Promise(NamedTuple):
    """A promise of the project, and the figure that was found; ``value`` is None if it was not measured."""

    what: str
    most: float
    value: float | None
    unit: str = ""

    @property
    def is_kept(self) -> bool | None:
        """None if it was not measured."""
        return None if self.value is None else self.value <= self.most

    def text(self, unknown: str = "BROKEN") -> str:
        """One line; ``unknown`` is the verdict on what was not measured."""
        value = "not measured" if self.value is None else f"{self.value:.4g}"
        bound = f"{self.most:g} {self.unit}".strip()
        above = (
            f", {self.value / self.most - 1:.0%} above it" if self.is_kept is False and self.value and self.most else ""
        )
        verdict = {True: "kept", False: "BROKEN", None: unknown}[self.is_kept]
        return f"{verdict:<7} {self.what}: {value}, at most {bound}{above}"


def number(value: float | None, digits: int = 0) -> str:
    """A cell of a table."""
    return "-" if value is None else f"{value:.{digits}f}"


def with_ratio(value: float | None, over: float | None, digits: int = 0) -> str:
    """A cell with the ratio of the figure in brackets, if there is one."""
    return number(value, digits) + (f" ({over:.2f})" if value is not None and over is not None else "")


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Its lines: each column as wide as its longest cell, the first to the left and the others to the right."""
    lines = [head, *(tuple(map(str, row)) for row in rows)]
    first, *others = (max(map(len, column)) for column in zip(*lines, strict=True))
    return [
        "  ".join([line[0].ljust(first), *(cell.rjust(width) for cell, width in zip(line[1:], others, strict=True))])
        for line in lines
    ]


def machine(load_before: float) -> dict[str, Any]:
    """The machine that was measured on; ``load_before`` is ``os.getloadavg()[0]`` before anything began."""
    return {
        "load_before": load_before,
        "load_after": os.getloadavg()[0],
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
    }


def warning(about: Mapping[str, Any]) -> list[str]:
    """A line if the machine had other work before a measure began: figures are of that work, too."""
    if about["load_before"] <= _BUSY * about["cpus"]:
        return []
    return [f"the machine was busy before this began (load {about['load_before']:.1f}): run it again"]


def write(path: Path, document: Mapping[str, Any]) -> None:
    """All figures as JSON."""
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
