"""JUnit XML as systems of CI read it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from e2e.promises import Promise
from e2e.report.markup import tag
from e2e.report.promise_verdicts import of_column
from e2e.report.verdict_table import Evidence, Table, Verdict, columns_of

_DECLARATION: Final = '<?xml version="1.0" encoding="utf-8"?>\n'
_OF_CASE: Final[Mapping[str, str]] = {
    "failed": "failure", "error": "error", "skipped": "skipped", "not applicable": "skipped",
}  # fmt: skip
# The verdict's element: what was not shown must not look good.
_OF_VERDICT: Final[Mapping[str, str]] = {"fail": "failure", "unknown": "error"}


def to_junit(table: Table, promises: Mapping[str, Promise]) -> str:
    """A suite for each column, and one with their verdicts, which a system of CI would not see otherwise."""
    verdicts = [(name, of_column(table, name, promises)) for name in columns_of(table)]
    suites = [
        suite("verdict", "", {}, [case("verdict", name, _OF_VERDICT.get(one.word), one.text) for name, one in verdicts])
    ]
    for name, column in ((name, table.columns[name]) for name, _ in verdicts):
        facts = {
            "target": column.target,
            "kind": column.cluster,
            "kubernetes": column.kubernetes,
            "commit": table.commit,
        }
        cells = [(one, row, row.verdicts[name]) for one, row in table.cases.items() if name in row.verdicts]
        suites.append(suite(name, column.date, facts, [_of(one, row.promises, cell) for one, row, cell in cells]))
    return document(suites, sum(cell.seconds for row in table.cases.values() for cell in row.verdicts.values()))


def document(suites: Sequence[Element], seconds: float) -> str:
    """The file."""
    root = tag("testsuites", *suites, name="gpushare", time=f"{seconds:.3f}")
    ElementTree.indent(root)
    return f"{_DECLARATION}{ElementTree.tostring(root, encoding='unicode')}\n"


def suite(name: str, started: str, properties: Mapping[str, str], cases: Sequence[Element]) -> Element:
    """One ``testsuite``; an empty property is left out."""
    kinds = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    amounts = {key: sum(one.find(kind) is not None for one in cases) for key, kind in kinds.items()}
    when = {"timestamp": started} if started else {}
    return tag(
        "testsuite",
        _properties(properties.items()),
        *cases,
        name=name,
        hostname=name,
        time=f"{sum(float(one.get('time', '0')) for one in cases):.3f}",
        tests=str(len(cases)),
        **when,
        **{key: str(amount) for key, amount in amounts.items()},
    )


def case(name: str, suite: str, outcome: str | None, reason: str, seconds: float = 0.0) -> Element:
    """One ``testcase``; ``outcome`` is the element of one that has not passed."""
    first_line = (reason.splitlines() or [""])[0]
    inside = [tag(outcome, reason, message=first_line)] if outcome else []
    return tag("testcase", *inside, name=name, classname=suite, time=f"{seconds:.3f}")


def _of(name: str, ids: Sequence[str], verdict: Verdict) -> Element:
    file, _, test = name.partition("::")
    text = f"{verdict.reason}\n{_plain(verdict.evidence)}" if verdict.evidence else verdict.reason
    element = case(test, file, _OF_CASE.get(verdict.outcome), text, verdict.seconds)
    if ids:
        element.insert(0, _properties([("case-id", one) for one in ids]))
    return element


def _properties(pairs: Iterable[tuple[str, str]]) -> Element:
    return tag("properties", *(tag("property", name=key, value=value) for key, value in pairs if value))


def _plain(evidence: Evidence) -> str:
    parts = {key: getattr(evidence, key) for key in ("expectation", "answer", "difference")}
    parts |= {"requests": "\n".join(evidence.requests)} | {f"log of {key}": text for key, text in evidence.logs.items()}
    parts["again"] = evidence.again
    return "\n".join(f"{key}: {text}" for key, text in parts.items() if text)
