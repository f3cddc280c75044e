"""A validation's report as one side of a comparison. Pure."""

from __future__ import annotations

from e2e.report.side_by_side import Comparison, Side, compare
from e2e.site.report.site_verdict import verdict_of
from e2e.site.site_report import WHOLE_CLUSTER, SiteReport, cells_of, pairs_of


def compare_sites(first: SiteReport, second: SiteReport) -> Comparison:
    """Compare each case on each node. Raises ValueError if neither has a case."""
    pairs = [(name, node or WHOLE_CLUSTER) for name, node in pairs_of(first, second)]
    return compare(_side(first), _side(second), pairs)


def _side(report: SiteReport) -> Side:
    verdict = verdict_of(report)
    cells = {
        (name, node or WHOLE_CLUSTER): (case.verdict, case.reason) for (name, node), case in cells_of(report).items()
    }
    findings = {one.key: f"{one.severity} {one.rule} of {one.subject}" for one in report.findings}
    return Side(f"{report.kind}, {report.started}: {verdict.line}", verdict.word, cells, dict(findings))
