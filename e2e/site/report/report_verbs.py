"""``python -m e2e report`` and ``compare``: what is done with the JSON of a validation afterwards."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from e2e.site.report.comparison import compare
from e2e.site.report.report_files import read_report, write_reports
from e2e.site.report.site_verdict import verdict_of

_DIFFERENT: Final = 3


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Each sets ``run``, a function of the arguments that returns the exit code and may raise OSError and ValueError."""
    text = "write the JSON, HTML and JUnit files of a report again, from its JSON"
    report = verbs.add_parser("report", help=text, description=text)
    report.add_argument("file", type=Path, metavar="FILE.json")
    report.add_argument("--into", type=Path, metavar="FOLDER", help="(default: the folder of FILE.json)")
    report.set_defaults(run=_report)
    text = "show the verdicts of two reports side by side; exit code 3 if any differs"
    comparison = verbs.add_parser("compare", help=text, description=text)
    comparison.add_argument("first", type=Path, metavar="A.json")
    comparison.add_argument("second", type=Path, metavar="B.json")
    comparison.set_defaults(run=_compare)


def _report(arguments: argparse.Namespace) -> int:
    report = read_report(arguments.file)
    for path in write_reports(report, arguments.into or arguments.file.parent):
        print(path)  # noqa: T201  # a command's output
    print(verdict_of(report).line)  # noqa: T201
    return 0


def _compare(arguments: argparse.Namespace) -> int:
    outcome = compare(read_report(arguments.first), read_report(arguments.second))
    print(outcome.text)  # noqa: T201  # a command's output
    return _DIFFERENT if outcome.differences else 0
