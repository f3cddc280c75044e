"""``python -m e2e compare``: which verdicts of two validations differ."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from e2e.report.verdict_files import read
from e2e.report.verdict_page import NOT_RUN
from e2e.report.verdict_table import Table
from e2e.report.verdicts import of_site

_DIFFERENT: Final = 3


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """It sets ``run``, a function of the arguments that returns the exit code and may raise OSError and ValueError."""
    text = "show which verdicts of two validations differ; exit code 3 if any does"
    comparison = verbs.add_parser("compare", help=text, description=text)
    comparison.add_argument("first", type=Path, metavar="A.json")
    comparison.add_argument("second", type=Path, metavar="B.json")
    comparison.set_defaults(run=_compare)


def _compare(arguments: argparse.Namespace) -> int:
    text, differences = compare(read(arguments.first), read(arguments.second))
    print(text)  # noqa: T201  # a command's output
    return _DIFFERENT if differences else 0


def compare(one: Table, other: Table) -> tuple[str, int]:
    """The text for people, and the number of verdicts that differ.

    Raises ValueError for a run of cases, and if neither has a case: the sides would agree, and nothing would be shown.
    """
    if one.site is None or other.site is None:
        raise ValueError("only reports of validations are compared")
    first, second = _cells(one), _cells(other)
    pairs = dict.fromkeys((*first, *second))
    if not pairs:
        raise ValueError("neither report has a case, so there is nothing to compare")
    words = [(pair, first.get(pair, NOT_RUN), second.get(pair, NOT_RUN)) for pair in pairs]
    left, right = of_site(one, one.site), of_site(other, other.site)
    words.append(("the whole", left.word, right.word))
    different = [
        f"differs: {pair}: A {a}, B {b}" for pair, a, b in words if a.partition(" (")[0] != b.partition(" (")[0]
    ]
    lines = [
        f"A  {one.site.run.name} at {one.commit}, {one.site.run.date}: {left.text}",
        f"B  {other.site.run.name} at {other.commit}, {other.site.run.date}: {right.text}",
        *different,
        f"{len(different)} of {len(words)} verdicts differ" if different else f"all {len(words)} verdicts are equal",
    ]
    return "\n".join(lines), len(different)


def _cells(table: Table) -> dict[str, str]:
    """By case and node: the word, and the reason in one line."""
    return {
        f"{name} on {node}": f"{one.outcome} ({' '.join(one.reason.split())})" if one.reason else one.outcome
        for name, case in table.cases.items()
        for node, one in case.verdicts.items()
    }
