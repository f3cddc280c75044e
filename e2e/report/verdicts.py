"""The verdicts of promises, of columns and of validations, out of those of their cases. Pure; what was not shown has not passed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from e2e.promises import CONFORMANCE, Promise
from e2e.report.verdict_table import WHOLE_CLUSTER, Outcome, Table, Validated, columns_of, counts, title_of

# The first ones are those of promises and columns, the others those of validations.
Word = Literal["pass", "fail", "partial", "unknown", "not applicable", "passed", "failed", "incomplete"]
# Failures that the verdict of a column names.
_SHOWN_FIRST: Final = 3


@dataclass(frozen=True, slots=True)
class Judgement:
    """``why`` is for people: how many of the cases it comes from. ``simulated`` are the cards that are, "" if none is."""

    word: Word
    why: str
    simulated: str = ""

    @property
    def title(self) -> str:
        """The verdict in a few words, which never hide that cards are simulated."""
        return f"{self.word} with {self.simulated}" if self.simulated else self.word

    @property
    def text(self) -> str:
        """All in one line."""
        return f"{self.title}: {self.why}" if self.why else self.title


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
    """The verdict of one promise; ``unknown`` if none of its cases ran."""
    cases = [case for case in table.cases.values() if promise in case.promises and column in case.verdicts]
    outcomes = [case.verdicts[column].outcome for case in cases]
    word = word_of(outcomes)
    if not outcomes:
        return Judgement(word, "not run")
    shown: Outcome = "failed" if word == "fail" else "error" if "error" in outcomes else "passed"
    amount = outcomes.count(shown)
    return Judgement(word, f"{amount} of {len(outcomes)} {shown}" if amount and word != "pass" else "")


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


def of_site(table: Table, site: Validated) -> Judgement:
    """The verdict of a validation.

    Passed: no case failed or is left open, one passed on every node, no finding is an error, preflight found nothing wrong.
    """
    simulated = f"simulated cards{_simulated_there(site)}" if any(one.are_cards_simulated for one in site.nodes) else ""
    if why := next(_faults(table, site), ""):
        return Judgement("failed", why, simulated)
    if why := next(_gaps(table, site), ""):
        return Judgement("incomplete", why, simulated)
    passed, nodes = len(_with(table, "passed")), len(_nodes(table))
    left_out = f", {count} not applicable" if (count := len(_with(table, "not applicable"))) else ""
    why = f"{passed} results are good on {nodes} node{'s' * (nodes > 1)}{left_out}, and none is bad."
    return Judgement("passed", why, simulated)


def kind_of_cards(site: Validated) -> str:
    """``real``, ``simulated``, or which are which."""
    if not any(one.are_cards_simulated for one in site.nodes):
        return "real"
    some = _simulated_there(site)
    return f"simulated{some}, real on the other nodes" if some else "simulated"


def _simulated_there(site: Validated) -> str:
    """Where cards are simulated if others are real, else ""."""
    names = [one.name for one in site.nodes if one.are_cards_simulated]
    return f" on {', '.join(names)}" if len(names) < len(site.nodes) else ""


def _faults(table: Table, site: Validated) -> Iterator[str]:
    if failed := _with(table, "failed"):
        yield f"{len(failed)} of {_results(table)} results failed, first {failed[0][0]}."
    errors = [f"{one.rule} of {one.subject}" for one in site.findings if one.severity == "error"]
    if errors:
        yield f"The cluster breaks {len(errors)} invariant{'s' * (len(errors) > 1)} of sharing, first {errors[0]}."


def _gaps(table: Table, site: Validated) -> Iterator[str]:
    """Each thing that is missing for a pass."""
    for line in site.preflight:
        if line.judgement == "wrong":
            yield f"Preflight found {line.name} of {line.subject} wrong."
    nodes = _nodes(table)
    if not nodes:
        yield "No node was validated."
    if gaps := _with(table, "not judged"):
        first = ": ".join(gaps[0]).rstrip(".")
        yield f"{len(gaps)} of {_results(table)} results could not be judged, first {first}."
    passed = {name for case in table.cases.values() for name, one in case.verdicts.items() if one.outcome == "passed"}
    if missing := [name for name in nodes if name not in passed]:
        yield f"No case passed on {len(missing)} of {len(nodes)} nodes, first {missing[0]}."


def _nodes(table: Table) -> list[str]:
    return [name for name in table.columns if name != WHOLE_CLUSTER]


def _results(table: Table) -> int:
    return sum(len(case.verdicts) for case in table.cases.values())


def _with(table: Table, outcome: Outcome) -> list[tuple[str, str]]:
    """The results with an outcome: the case with its column, in words, and the reason in one line."""
    return [
        (f"{title_of(name)} on {column}", " ".join(one.reason.split()))
        for name, case in table.cases.items()
        for column, one in case.verdicts.items()
        if one.outcome == outcome
    ]


def judgements(table: Table, promises: Iterable[Promise]) -> dict[str, Judgement]:
    """The verdict of each column; of a validation that of the whole, under ""."""
    if table.site is not None:
        return {"": of_site(table, table.site)}
    rows = {row.id: row for row in promises}
    return {name: of_column(table, name, rows) for name in columns_of(table)}


def summary(table: Table, promises: Sequence[Promise]) -> dict[str, Any]:
    """The verdicts of the columns, and of each promise in each of them, or that of a validation, as plain data."""
    judged = judgements(table, promises)
    if table.site is not None:
        return {"verdict": judged[""].title, "why": judged[""].why}
    return {
        "verdicts": {name: one.text for name, one in judged.items()},
        "promises": {
            one.id: {name: of_promise(table, name, one.id).word for name in judged}
            for one in judged_promises(table, promises)
        },
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
