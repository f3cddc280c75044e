"""The table as JSON, for programs, and as Markdown, for people. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from e2e.report.verdict_table import WORST_FIRST, Case, Table, columns_of, counts

NOT_RUN: Final = "not run"
_LEGEND: Final = (
    "What did not run at this commit says so. Numbers in round brackets count the parameters of a case; those in square "
    "brackets are notes, at the end."
)
_COUNTED: Final = ("passed", "skipped", "failed", "error", NOT_RUN)


def to_json(table: Table) -> str:
    """All that is known, one node id a row."""
    return msgspec.json.format(msgspec.json.encode(table), indent=1).decode() + "\n"


def from_json(text: str) -> Table:
    """The table out of the text of ``to_json``. Raises ValueError for anything else."""
    try:
        return msgspec.json.decode(text, type=Table)
    except msgspec.MsgspecError as error:
        raise ValueError(f"not a table of verdicts: {error}") from error


def to_markdown(table: Table, promises: Mapping[str, tuple[str, tuple[str, ...]]]) -> str:
    """A summary, the promises by id, then every case; parameters of a case are one row.

    ``promises`` gives a text and further proofs (tests without parameters) for ids of ``e2e.promises``.
    """
    shown = columns_of(table.columns)
    notes: dict[str, int] = {}
    tests = _by_test(table)
    head = f"# Verdicts: {table.target} at {table.commit}\n\n{_LEGEND}\n"
    parts = [head, _summary(table, shown), "## Promises\n", _promises(table, tests, promises, shown, notes)]
    files = sorted({test.partition("::")[0] for test in tests})
    for file in files:
        rows = [(test, cases) for test, cases in tests.items() if test.partition("::")[0] == file]
        parts += [f"## {file}\n", _cases(rows, shown, notes)]
    if notes:
        parts += ["## Notes\n", "".join(f"{number}. {_escaped(reason)}\n" for reason, number in notes.items())]
    return "\n".join(parts)


def _by_test(table: Table) -> dict[str, list[Case]]:
    """The cases of each test: one, or one for each parameter."""
    found: dict[str, list[Case]] = {}
    for name, case in sorted(table.cases.items()):
        found.setdefault(name.partition("[")[0], []).append(case)
    return found


def _summary(table: Table, shown: Iterable[str]) -> str:
    lines = []
    for name in shown:
        column = table.columns.get(name)
        when = (column.kubernetes, column.date) if column else ("", NOT_RUN)
        lines.append([name, *when, *(str(counts(table, name)[word]) for word in _COUNTED)])
    return markdown_table(["cluster", "Kubernetes", "run at", *_COUNTED], lines)


def _promises(
    table: Table,
    tests: Mapping[str, list[Case]],
    promises: Mapping[str, tuple[str, tuple[str, ...]]],
    shown: list[str],
    notes: dict[str, int],
) -> str:
    ids = {one for case in table.cases.values() for one in case.promises} | set(promises)
    rows = []
    for one in sorted(ids):
        text, proofs = promises.get(one, ("", ()))
        cases = [case for test, found in tests.items() for case in found if one in case.promises or test in proofs]
        # A proof that ran nowhere is one that is missing.
        cases += [Case() for test in proofs if test not in tests]
        rows.append([one, text, *(_cell(cases, name, notes) for name in shown)])
    return markdown_table(["id", "promise", *shown], rows)


def _cases(rows: Iterable[tuple[str, list[Case]]], shown: list[str], notes: dict[str, int]) -> str:
    lines = []
    for test, cases in rows:
        ids = dict.fromkeys(one for case in cases for one in case.promises)
        lines.append([test.partition("::")[2], " ".join(ids), *(_cell(cases, column, notes) for column in shown)])
    return markdown_table(["case", "ids", *shown], lines)


def _cell(cases: list[Case], cluster: str, notes: dict[str, int]) -> str:
    """The worst outcome, how many of the cases have it if there are several, and why."""
    seen = [case.verdicts[cluster] for case in cases if cluster in case.verdicts]
    if not seen:
        return NOT_RUN
    worst = next(outcome for outcome in WORST_FIRST if any(verdict.outcome == outcome for verdict in seen))
    those = [verdict for verdict in seen if verdict.outcome == worst]
    share = f"{len(those)}" if len(those) == len(cases) else f"{len(those)} of {len(cases)}"
    count = "" if len(cases) == 1 else f" ({share})"
    reasons = dict.fromkeys(verdict.reason for verdict in those if verdict.reason)
    numbers = "".join(f" [{notes.setdefault(reason, len(notes) + 1)}]" for reason in reasons)
    return f"{worst}{count}{numbers}"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of any texts."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(_escaped(cell) for cell in line)} |\n" for line in lines)


def text_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line for each row, in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _escaped(text: str) -> str:
    """One line, in which nothing ends a cell or begins a tag."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
