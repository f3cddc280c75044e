"""``python -m load compare A B``: two runs side by side. Ratios over the floor can be compared between machines, times cannot."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_FIGURES = ("p50", "p99")


class NoRunError(Exception):
    """A folder without the results of a run; the text names it."""


def add_to(commands: Any) -> None:
    """The command, among others."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "compare",
        help="two runs side by side",
        description="Two runs side by side: times, and ratios over the floor of each run.",
    )
    parser.add_argument("before", type=Path, metavar="A", help="folder of a run (load-results), or its load.json")
    parser.add_argument("after", type=Path, metavar="B", help="of another")
    parser.set_defaults(run=run_command)


def run_command(flags: argparse.Namespace) -> int:
    """The exit code: 1 if a folder has no run."""
    try:
        before, after = read(flags.before), read(flags.after)
    except NoRunError as error:
        print(f"load: {error}", file=sys.stderr)
        return 1
    print("\n".join(text(before, after)))
    return 0


def read(path: Path) -> dict[str, Any]:
    """A run's document. Raises NoRunError."""
    file = path / "load.json" if path.is_dir() else path
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(document, dict) or not {"rows", "order", "machine", "cluster"} <= document.keys():
            raise ValueError("it has no rows")
    except OSError as error:
        raise NoRunError(f"{file}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise NoRunError(f"{file}: not the results of a run: {error}") from error
    return document


def text(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """The differences between the orders, then a row for each figure that both have."""
    for name in ("cluster", "machine", "order"):
        yield from _differences(name, before[name], after[name])
    yield f"{'':<34}{'A':>10}{'B':>10}{'B/A':>8}   {'A/floor':>8}{'B/floor':>9}{'B/A':>8}"
    rows = {(row["extender"], row["verb"]): row for row in before["rows"]}
    for row in after["rows"]:
        other = rows.get((row["extender"], row["verb"]))
        if other is not None:
            yield from (_line(row["verb"], row["extender"], figure, other, row) for figure in _FIGURES)


def _differences(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key) and key != "load_before":
            yield f"not the same {name}: {key} {before.get(key)} and {after.get(key)}"


def _line(verb: str, extender: str, figure: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    name = f"{verb} {figure}" if extender == "gpushare" else f"{verb} {figure}, {extender}"
    over = f"{figure}_over_floor"
    times = f"{_number(before[figure]):>10}{_number(after[figure]):>10}{_ratio(before[figure], after[figure]):>8}"
    ratios = (
        f"{_number(before.get(over)):>8}{_number(after.get(over)):>9}{_ratio(before.get(over), after.get(over)):>8}"
    )
    return f"{name:<34}{times}   {ratios}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _ratio(before: float | None, after: float | None) -> str:
    return "-" if not before or after is None else f"{after / before:.2f}"
