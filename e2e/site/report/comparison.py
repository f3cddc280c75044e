"""Two reports side by side: the verdict of each case on each node, and which of them differ. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from e2e.report.pages import text_table
from e2e.site.report.site_verdict import verdict_of
from e2e.site.site_report import NOT_RUN, WHOLE_CLUSTER, CaseResult, SiteReport, cells_of, columns_of, pairs_of

# By case and node, the result in each report.
_Cells = Mapping[tuple[str, str], tuple[CaseResult | None, CaseResult | None]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """``text`` is for people; ``differences`` counts the cells that differ, and the verdicts of the whole."""

    text: str
    differences: int


def compare(first: SiteReport, second: SiteReport) -> Comparison:
    """Raises ValueError if neither has a case: they would agree, and nothing would be shown."""
    if not (pairs := pairs_of(first, second)):
        raise ValueError("neither report has a case, so there is nothing to compare")
    one, other = cells_of(first), cells_of(second)
    cells = {pair: (one.get(pair), other.get(pair)) for pair in pairs}
    different = [
        f"{name} on {node or WHOLE_CLUSTER}: A {_with_reason(left)}, B {_with_reason(right)}"
        for (name, node), (left, right) in cells.items()
        if _word(left) != _word(right)
    ]
    verdicts = verdict_of(first), verdict_of(second)
    if verdicts[0].word != verdicts[1].word:
        different.append(f"the whole: A {verdicts[0].word}, B {verdicts[1].word}")
    lines = [
        f"A  {first.kind}, {first.started}: {verdicts[0].line}",
        f"B  {second.kind}, {second.started}: {verdicts[1].line}",
        "",
        *_matrix(cells, columns_of(first, second)),
        "",
        *(f"differs: {line}" for line in different),
        *_findings(first, second),
        f"{len(different)} of {len(cells) + 1} verdicts differ"
        if different
        else f"all {len(cells) + 1} verdicts are equal",
    ]
    return Comparison("\n".join(lines), len(different))


def _matrix(cells: _Cells, nodes: Sequence[str]) -> list[str]:
    """A cell has one word if both reports agree, else that of A and that of B."""
    words = {pair: " | ".join(dict.fromkeys(map(_word, both))) for pair, both in cells.items()}
    rows = [["case", *(node or WHOLE_CLUSTER for node in nodes)]]
    rows += [
        [name, *(words.get((name, node), "") for node in nodes)] for name in dict.fromkeys(name for name, _ in cells)
    ]
    return text_table(rows)


def _word(result: CaseResult | None) -> str:
    return result.verdict if result else NOT_RUN


def _with_reason(result: CaseResult | None) -> str:
    """In one line."""
    return f"{_word(result)} ({' '.join(result.reason.split())})" if result and result.reason else _word(result)


def _findings(first: SiteReport, second: SiteReport) -> Iterator[str]:
    """Those that only one of them has: they are shown, and count by the verdict of the whole."""
    one, other = ({finding.key: finding for finding in report.findings} for report in (first, second))
    for letter, own, others in (("A", one, other), ("B", other, one)):
        for key, finding in own.items():
            if key not in others:
                yield f"only {letter} has the {finding.severity} {finding.rule} of {finding.subject}"
