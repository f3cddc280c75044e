"""Two reports side by side: the verdict of each row in each column, and which of them differ. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from e2e.promises import Promise
from e2e.report.markup import text_table
from e2e.report.verdict_page import NOT_RUN
from e2e.report.verdict_table import Table, columns_of
from e2e.report.verdicts import judged_promises, judgements, of_promise

Pair = tuple[str, str]
"""A row and a column."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """``text`` is for people; ``differences`` counts the cells that differ, and the verdicts of the whole."""

    text: str
    differences: int


@dataclass(frozen=True, slots=True)
class _Side:
    """One report: ``cells`` are word and reason."""

    title: str
    word: str
    cells: Mapping[Pair, tuple[str, str]]


def compare(one: Table, other: Table, promises: Sequence[Promise]) -> Comparison:
    """Compare two runs, or two validations. Runs have columns by cluster alone if each is of one target.

    Raises ValueError if neither has a case: the sides would agree, and nothing would be shown.
    """
    by_cluster = all(len({column.target for column in table.columns.values()}) == 1 for table in (one, other))
    first, second = (_side(table, promises, by_cluster and table.site is None) for table in (one, other))
    pairs = [*dict.fromkeys((*first.cells, *second.cells))]
    if not pairs:
        raise ValueError("neither report has a case, so there is nothing to compare")
    none = (NOT_RUN, "")
    cells = {pair: (first.cells.get(pair, none), second.cells.get(pair, none)) for pair in pairs}
    different = [
        f"{row} on {column}: A {_with_reason(*left)}, B {_with_reason(*right)}"
        for (row, column), (left, right) in cells.items()
        if left[0] != right[0]
    ]
    if first.word != second.word:
        different.append(f"the whole: A {first.word}, B {second.word}")
    shown = {pair: " | ".join(dict.fromkeys((left[0], right[0]))) for pair, (left, right) in cells.items()}
    if one.site is None:
        # Of the many cases of a run those alone that differ are shown.
        ids = {row.id for table in (one, other) for row in judged_promises(table, promises)}
        shown = {pair: text for pair, text in shown.items() if pair[0] in ids}
    lines = [f"A  {first.title}", f"B  {second.title}", "", *_matrix(shown, [*dict.fromkeys(one for _, one in pairs)])]
    lines += ["", *(f"differs: {line}" for line in different), *_findings(one, other)]
    count = len(cells) + 1
    lines.append(f"{len(different)} of {count} verdicts differ" if different else f"all {count} verdicts are equal")
    return Comparison("\n".join(lines), len(different))


def _side(table: Table, promises: Sequence[Promise], by_cluster: bool) -> _Side:
    whole, names = judgements(table, promises), columns_of(table)
    label = {name: table.columns[name].cluster if by_cluster else name for name in names}
    cells: dict[Pair, tuple[str, str]] = {}
    for row in judged_promises(table, promises):
        for name in names:
            found = of_promise(table, name, row.id)
            cells[row.id, label[name]] = (found.word, found.why)
    for case, found_in in table.cases.items():
        for name, verdict in found_in.verdicts.items():
            cells[case, label[name]] = (verdict.outcome, verdict.reason)
    runs = {"": table.site.run} if table.site else table.columns
    title = "; ".join(
        f"{name or runs[name].name} at {table.commit}, {runs[name].date}: {found.text}" for name, found in whole.items()
    )
    return _Side(title, ", ".join(dict.fromkeys(found.word for found in whole.values())), cells)


def _matrix(cells: Mapping[Pair, str], columns: Sequence[str]) -> list[str]:
    """A cell has one word if both reports agree, else that of A and that of B."""
    rows = dict.fromkeys(row for row, _ in cells)
    return text_table([["case", *columns], *([row, *(cells.get((row, one), "") for one in columns)] for row in rows)])


def _with_reason(word: str, reason: str) -> str:
    """In one line."""
    return f"{word} ({' '.join(reason.split())})" if reason else word


def _findings(one: Table, other: Table) -> Iterator[str]:
    """Those that only one validation has: they are shown, and count by the verdict of the whole."""
    first, second = ({item.key: item for item in table.site.findings} if table.site else {} for table in (one, other))
    for letter, own, others in (("A", first, second), ("B", second, first)):
        for key, item in own.items():
            if key not in others:
                yield f"only {letter} has the {item.severity} {item.rule} of {item.subject}"
