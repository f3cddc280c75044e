"""The report as JUnit XML: a suite for each node, and one with the verdict, which a system of CI would not see otherwise. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from e2e.site.report.compatibility import cards_of
from e2e.site.report.markup import tag
from e2e.site.report.site_verdict import kind_of_cards, verdict_of
from e2e.site.site_report import WHOLE_CLUSTER, NodeFacts, SiteReport, columns_of

_DECLARATION: Final = '<?xml version="1.0" encoding="utf-8"?>\n'
# The verdict's element: what is incomplete must not look good.
_OF_VERDICT: Final[Mapping[str, str]] = {"failed": "failure", "incomplete": "error"}
_OF_CASE: Final[Mapping[str, str]] = {"failed": "failure", "skipped": "skipped", "not judged": "skipped"}


def to_junit(report: SiteReport) -> str:
    """The file."""
    verdict = verdict_of(report)
    facts = {node.name: node for node in report.nodes}
    suites = [
        _suite(
            report,
            "verdict",
            _versions(report),
            [_case("verdict", "site", _OF_VERDICT.get(verdict.word), verdict.line)],
        )
    ]
    for node in columns_of(report):
        results = [
            _case(case.name, node or WHOLE_CLUSTER, _OF_CASE.get(case.verdict), case.reason, case.seconds)
            for case in report.cases
            if case.node == node
        ]
        properties = _versions(report) | (_of_node(facts[node]) if node in facts else {})
        suites.append(_suite(report, node or WHOLE_CLUSTER, properties, results))
    root = tag("testsuites", *suites, name="gpushare", time=f"{report.seconds:.3f}")
    ElementTree.indent(root)
    return f"{_DECLARATION}{ElementTree.tostring(root, encoding='unicode')}\n"


def _suite(report: SiteReport, name: str, properties: Mapping[str, str], cases: list[Element]) -> Element:
    shown = [tag("property", name=key, value=value) for key, value in properties.items() if value]
    kinds = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    amounts = {key: sum(case.find(kind) is not None for case in cases) for key, kind in kinds.items()}
    return tag(
        "testsuite",
        tag("properties", *shown),
        *cases,
        name=name,
        hostname=name,
        timestamp=report.started,
        time=f"{sum(float(case.get('time', '0')) for case in cases):.3f}",
        tests=str(len(cases)),
        **{key: str(amount) for key, amount in amounts.items()},
    )


def _case(name: str, suite: str, outcome: str | None, reason: str, seconds: float = 0.0) -> Element:
    """``outcome`` is the element of a case that has not passed."""
    first_line = (reason.splitlines() or [""])[0]
    inside = [tag(outcome, reason, message=first_line)] if outcome else []
    return tag("testcase", *inside, name=name, classname=suite, time=f"{seconds:.3f}")


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
