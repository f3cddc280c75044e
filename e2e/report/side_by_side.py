"""Two reports side by side: the verdict of each row in each column, and which of them differ. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from e2e.promises import Promise
from e2e.report.pages import text_table
from e2e.report.promise_verdicts import judged_promises, of_column, of_promise
from e2e.report.verdict_page import NOT_RUN
from e2e.report.verdict_table import Table, columns_of

Pair = tuple[str, str]
"""A row and a column."""


@dataclass(frozen=True, slots=True)
class Side:
    """One report: ``cells`` are word and reason; ``findings`` are lines that the other side may lack."""

    title: str
    word: str
    cells: Mapping[Pair, tuple[str, str]]
    findings: Mapping[object, str]


@dataclass(frozen=True, slots=True)
class Comparison:
    """``text`` is for people; ``differences`` counts the cells that differ, and the verdicts of the whole."""

    text: str
    differences: int


def compare(first: Side, second: Side, pairs: Sequence[Pair], matrix: Collection[str] | None = None) -> Comparison:
    """Compare these cells; the rows of ``matrix`` are shown as a table (None: all).

    Raises ValueError if there is no cell: the sides would agree, and nothing would be shown.
    """
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
    shown = {pair: text for pair, text in shown.items() if matrix is None or pair[0] in matrix}
    lines = [
        f"A  {first.title}",
        f"B  {second.title}",
        "",
        *_matrix(shown, [*dict.fromkeys(column for _, column in pairs)]),
    ]
    lines += ["", *(f"differs: {line}" for line in different), *_findings(first, second)]
    lines.append(
        f"{len(different)} of {len(cells) + 1} verdicts differ"
        if different
        else f"all {len(cells) + 1} verdicts are equal"
    )
    return Comparison("\n".join(lines), len(different))


def compare_tables(one: Table, other: Table, promises: Sequence[Promise]) -> Comparison:
    """Promises and cases; columns by cluster alone if each table is of one target. Raises ValueError if neither has a case."""
    by_cluster = all(len({column.target for column in table.columns.values()}) == 1 for table in (one, other))
    first, second = (_side(table, promises, by_cluster) for table in (one, other))
    ids = [row.id for table in (one, other) for row in judged_promises(table, promises)]
    return compare(first, second, [*dict.fromkeys((*first.cells, *second.cells))], ids)


def _side(table: Table, promises: Sequence[Promise], by_cluster: bool) -> Side:
    rows = {row.id: row for row in promises}
    whole = [(name, of_column(table, name, rows)) for name in columns_of(table)]
    label = {name: table.columns[name].cluster if by_cluster else name for name, _ in whole}
    cells: dict[Pair, tuple[str, str]] = {}
    for row in judged_promises(table, promises):
        for name, _ in whole:
            found = of_promise(table, name, row.id)
            cells[row.id, label[name]] = (found.word, found.why)
    for case, found_in in table.cases.items():
        for name, verdict in found_in.verdicts.items():
            cells[case, label[name]] = (verdict.outcome, verdict.reason)
    title = "; ".join(f"{name} at {table.commit}, {table.columns[name].date}: {found.text}" for name, found in whole)
    return Side(title, ", ".join(dict.fromkeys(found.word for _, found in whole)), cells, {})


def _matrix(cells: Mapping[Pair, str], columns: Sequence[str]) -> list[str]:
    """A cell has one word if both reports agree, else that of A and that of B."""
    rows = dict.fromkeys(row for row, _ in cells)
    return text_table([["case", *columns], *([row, *(cells.get((row, one), "") for one in columns)] for row in rows)])


def _with_reason(word: str, reason: str) -> str:
    """In one line."""
    return f"{word} ({' '.join(reason.split())})" if reason else word


def _findings(first: Side, second: Side) -> Iterator[str]:
    """Those that only one of them has: they are shown, and count by the verdict of the whole."""
    for letter, own, others in (("A", first.findings, second.findings), ("B", second.findings, first.findings)):
        for key, text in own.items():
            if key not in others:
                yield f"only {letter} has the {text}"
