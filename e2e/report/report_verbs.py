"""``python -m e2e report`` and ``compare``: what is done afterwards with the JSON of a validation, or of a run of cases."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from e2e import promises
from e2e.report.side_by_side import compare
from e2e.report.verdict_files import read, write
from e2e.report.verdict_table import merged
from e2e.report.verdicts import of_site

_DIFFERENT: Final = 3


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Each sets ``run``, a function of the arguments that returns the exit code and may raise OSError and ValueError."""
    text = "write the JSON and HTML files of a report again, from its JSON; those of several runs become one"
    report = verbs.add_parser("report", help=text, description=text)
    report.add_argument("files", type=Path, nargs="+", metavar="FILE.json")
    report.add_argument("--into", type=Path, metavar="FOLDER", help="(default: the folder of the first FILE.json)")
    report.set_defaults(run=_report)
    text = "show the verdicts of two reports side by side; exit code 3 if any differs"
    comparison = verbs.add_parser("compare", help=text, description=text)
    comparison.add_argument("first", type=Path, metavar="A.json")
    comparison.add_argument("second", type=Path, metavar="B.json")
    comparison.set_defaults(run=_compare)


def _report(arguments: argparse.Namespace) -> int:
    first, *more = map(read, arguments.files)
    if more and any(table.site for table in (first, *more)):
        raise ValueError("reports of validations stay apart: name one")
    for table in more:
        if table.commit != first.commit:
            raise ValueError("only runs of one state of the sources become one report")
        first = merged(first, table)
    paths = write(arguments.into or arguments.files[0].parent, first, promises.load())
    last = of_site(first, first.site).text if first.site else f"{len(first.cases)} cases"
    print("\n".join([*map(str, paths), last]))  # noqa: T201  # a command's output
    return 0


def _compare(arguments: argparse.Namespace) -> int:
    first, second = read(arguments.first), read(arguments.second)
    if bool(first.site) is not bool(second.site):
        raise ValueError("a validation cannot be compared with a run of cases")
    outcome = compare(first, second, promises.load())
    print(outcome.text)  # noqa: T201  # a command's output
    return _DIFFERENT if outcome.differences else 0
