"""The report as JUnit XML: a suite for each node, and one with the verdict, which a system of CI would not see otherwise. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from e2e.report.junit_suites import case, document, suite
from e2e.site.report.compatibility import cards_of
from e2e.site.report.site_verdict import kind_of_cards, verdict_of
from e2e.site.site_report import WHOLE_CLUSTER, NodeFacts, SiteReport, columns_of

# The verdict's element: what is incomplete must not look good.
_OF_VERDICT: Final[Mapping[str, str]] = {"failed": "failure", "incomplete": "error"}
# JUnit has no other word for a case that was not judged; its message has the reason.
_OF_CASE: Final[Mapping[str, str]] = {"failed": "failure", "not judged": "skipped"}


def to_junit(report: SiteReport) -> str:
    """The file."""
    verdict = verdict_of(report)
    facts = {node.name: node for node in report.nodes}
    whole = case("verdict", "site", _OF_VERDICT.get(verdict.word), verdict.line)
    suites = [suite("verdict", report.started, _versions(report), [whole])]
    for node in columns_of(report):
        results = [
            case(one.name, node or WHOLE_CLUSTER, _OF_CASE.get(one.verdict), one.reason, one.seconds)
            for one in report.cases
            if one.node == node
        ]
        properties = _versions(report) | (_of_node(facts[node]) if node in facts else {})
        suites.append(suite(node or WHOLE_CLUSTER, report.started, properties, results))
    return document(suites, report.seconds)


def _versions(report: SiteReport) -> dict[str, str]:
    return {
        "kind": report.kind,
        "cards": kind_of_cards(report),
        "server": report.server,
        "kubernetes": report.kubernetes,
        "target": report.target,
        "programs": ", ".join(report.programs),
        "commit": report.commit,
    }


def _of_node(node: NodeFacts) -> dict[str, str]:
    return {
        "kubelet": node.kubelet,
        "runtime": node.runtime,
        "kernel": node.kernel,
        "system": node.system,
        "architecture": node.architecture,
        "driver": node.driver,
        "models": cards_of([node]),
        "mps": node.mps,
    }
