"""``python -m e2e report`` and ``compare``: what is done afterwards with the JSON of a validation, or of a run of cases."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from e2e import promises
from e2e.report import verdict_files
from e2e.report.side_by_side import Comparison, compare_tables
from e2e.report.verdict_table import Table, from_json, merged
from e2e.site.report.report_files import read_report, write_reports
from e2e.site.report.site_sides import compare_sites
from e2e.site.report.site_verdict import verdict_of
from e2e.site.site_report import SiteReport

_DIFFERENT: Final = 3


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Each sets ``run``, a function of the arguments that returns the exit code and may raise OSError and ValueError."""
    text = "write the JSON, HTML and JUnit files of a report again, from its JSON; those of several runs become one"
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
    first, *more = [_read(path) for path in arguments.files]
    folder = arguments.into or arguments.files[0].parent
    if isinstance(first, SiteReport):
        if more:
            raise ValueError("reports of validations stay apart: name one")
        paths, last = write_reports(first, folder), verdict_of(first).line
    else:
        for table in more:
            if not isinstance(table, Table) or table.commit != first.commit:
                raise ValueError("only runs of one state of the sources become one report")
            first = merged(first, table)
        paths, last = verdict_files.write(folder, first, promises.load()), f"{len(first.cases)} cases"
    print("\n".join([*map(str, paths), last]))  # noqa: T201  # a command's output
    return 0


def _compare(arguments: argparse.Namespace) -> int:
    first, second = _read(arguments.first), _read(arguments.second)
    outcome: Comparison
    if isinstance(first, Table) and isinstance(second, Table):
        outcome = compare_tables(first, second, promises.load())
    elif isinstance(first, SiteReport) and isinstance(second, SiteReport):
        outcome = compare_sites(first, second)
    else:
        raise ValueError("a validation cannot be compared with a run of cases")
    print(outcome.text)  # noqa: T201  # a command's output
    return _DIFFERENT if outcome.differences else 0


def _read(path: Path) -> Table | SiteReport:
    """The report of either kind. Raises OSError, and ValueError if it is none."""
    try:
        return from_json(path.read_bytes())
    except ValueError:
        return read_report(path)
