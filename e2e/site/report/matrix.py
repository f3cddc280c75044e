"""The cases of a report by nodes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from e2e.site.site_report import CaseResult, SiteReport, Verdict

NOT_RUN: Final = "not run"
WHOLE_CLUSTER: Final = "whole cluster"
_WORST_FIRST: Final[tuple[Verdict, ...]] = ("failed", "not judged", "skipped", "passed")


def columns_of(*reports: SiteReport) -> list[str]:
    """The nodes as the reports describe them, then those that only cases name; "" is the whole cluster."""
    described = [node.name for report in reports for node in report.nodes]
    return list(dict.fromkeys(described + [case.node for report in reports for case in report.cases]))


def rows_of(*reports: SiteReport) -> dict[str, str]:
    """The promise of each case, by its name."""
    return {case.name: case.promise for report in reversed(reports) for case in report.cases}


def pairs_of(*reports: SiteReport) -> list[tuple[str, str]]:
    """Case and node of each result that is expected: a case of nodes has one on every node, one of the whole cluster just one."""
    kinds = {(case.name, bool(case.node)) for report in reports for case in report.cases}
    nodes = columns_of(*reports)
    return [(name, node) for name in rows_of(*reports) for node in nodes if (name, bool(node)) in kinds]


def cells_of(report: SiteReport) -> Mapping[tuple[str, str], CaseResult]:
    """The results by case and node; of a case that ran several times the worst."""
    worst_last = sorted(report.cases, key=lambda case: _WORST_FIRST.index(case.verdict), reverse=True)
    return {(case.name, case.node): case for case in worst_last}
