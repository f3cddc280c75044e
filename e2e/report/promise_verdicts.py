"""The verdicts of promises and of whole columns, out of those of their cases. Pure; a promise that was not shown has not passed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from e2e.promises import CONFORMANCE, Promise
from e2e.report.verdict_table import Outcome, Table, columns_of, counts

Word = Literal["pass", "fail", "partial", "unknown", "not applicable"]
# Failures that the verdict of a column names.
_SHOWN_FIRST: Final = 3
_DEFECT: Final = re.compile(r"D\d\d")


@dataclass(frozen=True, slots=True)
class Judgement:
    """``why`` is for people: how many of the cases it comes from."""

    word: Word
    why: str

    @property
    def text(self) -> str:
        """Both in one line."""
        return f"{self.word}: {self.why}" if self.why else self.word


def word_of(outcomes: Collection[Outcome]) -> Word:
    """The verdict that follows from these outcomes of cases."""
    if "failed" in outcomes:
        return "fail"
    if "error" in outcomes:
        return "unknown"
    if "passed" in outcomes:
        return "pass" if set(outcomes) == {"passed"} else "partial"
    return "not applicable" if set(outcomes) == {"not applicable"} else "unknown"


def of_promise(table: Table, column: str, promise: str) -> Judgement:
    """The verdict of one promise, and the original's defects that its failed cases are about, too; ``unknown`` if none ran."""
    cases = [case for case in table.cases.values() if promise in case.promises and column in case.verdicts]
    outcomes = [case.verdicts[column].outcome for case in cases]
    word = word_of(outcomes)
    if not outcomes:
        return Judgement(word, "not run")
    shown: Outcome = "failed" if word == "fail" else "error" if "error" in outcomes else "passed"
    amount = outcomes.count(shown)
    through = {one for case in cases if case.verdicts[column].outcome == "failed" for one in case.promises}
    defects = sorted(one for one in through - {promise} if _DEFECT.fullmatch(one))
    facts = [f"{amount} of {len(outcomes)} {shown}", *([f"by {', '.join(defects)}"] if defects else ())]
    return Judgement(word, " ".join(facts) if amount and word != "pass" else "")


def of_column(table: Table, column: str, promises: Mapping[str, Promise]) -> Judgement:
    """The verdict of a target on a cluster.

    A case that fails for a defect of the original alone does not fail the target: its verdict names the defects that show.
    """
    cells = [
        (name, case, case.verdicts[column].outcome) for name, case in table.cases.items() if column in case.verdicts
    ]
    only_defect = {name for name, case, _ in cells if case.promises and _are_defects(case.promises, promises)}
    failed = [name for name, _, outcome in cells if outcome == "failed"]
    broken = [name for name in failed if name not in only_defect]
    shown = {one for _, case, outcome in cells if outcome == "failed" for one in case.promises}
    defects = sorted(one for one in shown if _are_defects((one,), promises))
    outcomes: list[Outcome] = [
        outcome for name, _, outcome in cells if name not in failed and outcome != "not applicable"
    ]
    word: Word = "fail" if broken else "unknown" if not outcomes and failed else word_of(outcomes)
    facts = [", ".join(f"{count} {what}" for what, count in counts(table, column).items()) or "nothing ran"]
    facts += [f"first {_some(broken)}"] if broken else []
    facts += [f"failed cases are about the defects {', '.join(defects)}"] if defects else []
    return Judgement(word, "; ".join(facts))


def summary(table: Table, promises: Sequence[Promise]) -> dict[str, Any]:
    """The verdicts of the columns, and of each promise in each of them, as plain data."""
    rows = {row.id: row for row in promises}
    names = columns_of(table)
    ids = judged_promises(table, promises)
    return {
        "verdicts": {name: of_column(table, name, rows).text for name in names},
        "promises": {one.id: {name: of_promise(table, name, one.id).word for name in names} for one in ids},
    }


def judged_promises(table: Table, promises: Iterable[Promise]) -> list[Promise]:
    """The promises that a case in the table is about; an id that the table of promises has not is shown, too."""
    used = dict.fromkeys(one for case in table.cases.values() for one in case.promises)
    rows = {row.id: row for row in promises if row.id in used}
    return [*rows.values(), *(Promise(one, "") for one in used if one not in rows)]


def judged_musts(table: Table, column: str, promises: Iterable[Promise]) -> int:
    """The number of promises that each target must keep, and that have a verdict in this column, even a bad or a partial one."""
    musts = (one.id for one in promises if one.level == "must" and one.profile in CONFORMANCE)
    return sum(of_promise(table, column, one).word in ("pass", "fail", "partial") for one in musts)


def _are_defects(ids: Iterable[str], promises: Mapping[str, Promise]) -> bool:
    return all(one in promises and promises[one].level == "defect" for one in ids)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN_FIRST} more" if len(names) > _SHOWN_FIRST else ""
    return ", ".join(name.rpartition("::")[2] for name in names[:_SHOWN_FIRST]) + more
