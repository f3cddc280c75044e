"""Two reports side by side: the verdict of each case on each node, and which of them differ. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from e2e.site.report.matrix import NOT_RUN, WHOLE_CLUSTER, cells_of, columns_of, rows_of
from e2e.site.report.site_verdict import verdict_of
from e2e.site.site_report import CaseResult, SiteReport


@dataclass(frozen=True, slots=True)
class Comparison:
    """``text`` is for people; ``differences`` counts the cells that differ, and the verdicts of the whole."""

    text: str
    differences: int


def compare(first: SiteReport, second: SiteReport) -> Comparison:
    """Raises ValueError if neither has a case: they would agree, and nothing would be shown."""
    nodes, names = columns_of(first, second), rows_of(first, second)
    if not names:
        raise ValueError("neither report has a case, so there is nothing to compare")
    one, other = cells_of(first), cells_of(second)
    rows = [["case", *(node or WHOLE_CLUSTER for node in nodes)]]
    different = []
    for name in names:
        pairs = [(one.get((name, node)), other.get((name, node))) for node in nodes]
        rows.append([name, *(" | ".join(dict.fromkeys(_word(result) for result in pair)) for pair in pairs)])
        for node, (left, right) in zip(nodes, pairs, strict=True):
            if _word(left) != _word(right):
                different.append(f"{name} on {node or WHOLE_CLUSTER}: A {_with_reason(left)}, B {_with_reason(right)}")
    verdicts = verdict_of(first), verdict_of(second)
    if verdicts[0].word != verdicts[1].word:
        different.append(f"the whole: A {verdicts[0].word}, B {verdicts[1].word}")
    heads = [
        f"{letter}  {report.kind}, {report.started}: {verdict.line}"
        for letter, report, verdict in zip("AB", (first, second), verdicts, strict=True)
    ]
    last = f"{len(different)} verdicts differ" if different else "all verdicts are equal"
    differs = [f"differs: {line}" for line in different]
    return Comparison(
        "\n".join([*heads, "", *_aligned(rows), "", *differs, *_findings(first, second), last]), len(different)
    )


def _word(result: CaseResult | None) -> str:
    return result.verdict if result else NOT_RUN


def _with_reason(result: CaseResult | None) -> str:
    return f"{_word(result)} ({result.reason})" if result and result.reason else _word(result)


def _findings(first: SiteReport, second: SiteReport) -> Iterator[str]:
    """Those that only one of them has: they are shown, and count by the verdict of the whole."""
    one, other = ({finding.key: finding for finding in report.findings} for report in (first, second))
    for letter, own, others in (("A", one, other), ("B", other, one)):
        for key, finding in own.items():
            if key not in others:
                yield f"only {letter} has the {finding.severity} {finding.rule} of {finding.subject}"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
