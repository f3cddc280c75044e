"""The table of cases by columns, and how the results of a run are merged into it. Pure.

A column is a target on a cluster. In the table of a validation, which is of one cluster, it is a node.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from e2e.site.findings import Finding

# A validation has "not judged" in place of "skipped": the case might have shown a fault, and could not run. One that is not
# applicable is about something that the target or the site does not have, or that its administrator did not allow.
Outcome = Literal["failed", "error", "skipped", "not judged", "not applicable", "passed"]
Judged = Literal["ok", "wrong", "unknown"]
WHOLE_CLUSTER: Final = "whole cluster"
# The columns of one target, from the instant to the real; others come after them.
CLUSTERS: Final = ("embedded", "controlplane", "kind")
# All but the characters that XML 1.0 allows.
_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Evidence(msgspec.Struct, frozen=True):
    """A failure in parts; "" is a part that it has not."""

    account: str = ""
    """pytest's: the lines of the case, and the sides of its assertion."""
    requests: tuple[str, ...] = ()
    """The last questions to the programs under test, with their answers."""
    logs: dict[str, str] = {}
    """By program, the last lines that it wrote during the case."""
    again: str = ""
    """The command that repeats this case."""


class Verdict(msgspec.Struct, frozen=True):
    """The result of one case in one column."""

    outcome: Outcome
    reason: str = ""
    """Why it was skipped, or how it failed, in one line."""
    seconds: float = 0.0
    evidence: Evidence | None = None


class Column(msgspec.Struct, frozen=True):
    """The last run of a target on a cluster."""

    target: str
    cluster: str
    kubernetes: str
    """Its release (``v1.36.3``); its minor, or nothing, if no API server was asked."""
    date: str
    """When the run ended, UTC, as RFC 3339 has it."""

    @property
    def name(self) -> str:
        """The key of the column."""
        return f"{self.target} on {self.cluster}"


class Case(msgspec.Struct, frozen=True):
    """One row: ``promises`` are ids of ``e2e.promises``, ``verdicts`` are by column; one that is missing did not run it."""

    promises: tuple[str, ...] = ()
    verdicts: dict[str, Verdict] = {}
    text: str = ""
    """The promise of the case in its own words."""


class PreflightLine(msgspec.Struct, frozen=True):
    """One thing that was looked at before anything ran; ``todo`` says what to do unless it is ok."""

    name: str
    """The thing that was looked at, as ``ports``."""
    subject: str
    """Where, as ``node a1``, or ``cluster``."""
    judgement: Judged
    text: str
    todo: str = ""


class CardFacts(msgspec.Struct, frozen=True):
    """One card, as the node or its driver shows it."""

    index: int
    uuid: str
    model: str
    mib: int


class NodeFacts(msgspec.Struct, frozen=True):
    """One node that shares cards; "" for what is not known."""

    name: str
    kubelet: str = ""
    runtime: str = ""
    kernel: str = ""
    system: str = ""
    architecture: str = ""
    driver: str = ""
    cards: tuple[CardFacts, ...] = ()
    other_resources: tuple[str, ...] = ()
    """Extended resources of other plugins that may give out the same cards, as ``nvidia.com/gpu``."""
    are_cards_simulated: bool = False


class Validated(msgspec.Struct, frozen=True):
    """The cluster or machine of a validation, and what was seen of it beside the cases."""

    run: Column
    """Its ``cluster`` is the kind of provider: ``existing``, ``kind``, ``embedded`` or ``bare``."""
    seconds: float = 0.0
    server: str = ""
    programs: tuple[str, ...] = ()
    """Images of the programs under test, as ``extender gpushare/extender:1.2``."""
    nodes: tuple[NodeFacts, ...] = ()
    preflight: tuple[PreflightLine, ...] = ()
    findings: tuple[Finding, ...] = ()
    """What ``observe`` found before and after the cases."""
    recordings: dict[str, Any] = {}
    """By node, a box of fake_nvml as its file has it."""


class Table(msgspec.Struct, frozen=True):
    """All of it. ``cases`` are by pytest's node id or, in a validation, by the name of their function."""

    commit: str
    """The state of the sources."""
    columns: dict[str, Column] = {}
    cases: dict[str, Case] = {}
    site: Validated | None = None
    form: Literal[3] = 3
    """The form of the file; a later one would be another number."""


def columns_of(table: Table) -> list[str]:
    """By target, then from the instant to the real."""

    def place(item: tuple[str, Column]) -> tuple[str, int, str]:
        column = item[1]
        order = CLUSTERS.index(column.cluster) if column.cluster in CLUSTERS else len(CLUSTERS)
        return column.target, order, column.cluster

    return [name for name, _ in sorted(table.columns.items(), key=place)]


def troubles(table: Table) -> Iterator[tuple[str, str, Case, Verdict]]:
    """Column, node id, case and verdict of each failure and error, column by column."""
    for column in columns_of(table):
        for name, case in table.cases.items():
            verdict = case.verdicts.get(column)
            if verdict is not None and verdict.outcome in ("failed", "error"):
                yield column, name, case, verdict


def merged(before: Table | None, run: Table) -> Table:
    """The former table, with this run over it: cell by cell, as a run may be a part of the suite.

    Nothing stays of other sources, and of a column nothing if its Kubernetes is of another minor: a table never mixes results about
    different things.
    """
    if before is None or before.commit != run.commit:
        return run
    kept = {name for name, column in before.columns.items() if _goes_on(column, run.columns.get(name))}
    cases = {}
    for name in sorted(before.cases.keys() | run.cases.keys()):
        old, new = before.cases.get(name, Case()), run.cases.get(name, Case())
        verdicts = {**{column: verdict for column, verdict in old.verdicts.items() if column in kept}, **new.verdicts}
        if verdicts:
            cases[name] = Case(new.promises or old.promises, verdicts, new.text or old.text)
    columns = {name: before.columns[name] for name in before.columns if name in kept}
    return Table(run.commit, {**columns, **run.columns}, cases)


def _goes_on(before: Column, now: Column | None) -> bool:
    return (
        now is None
        or not (now.kubernetes and before.kubernetes)
        or minor_of(before.kubernetes) == minor_of(now.kubernetes)
    )


def minor_of(release: str) -> str:
    """``1.36`` of ``v1.36.3`` or ``1.36``."""
    return ".".join(release.removeprefix("v").split(".")[:2])


def counts(table: Table, column: str) -> dict[str, int]:
    """The number of cases with each outcome that there is in a column; each parameter is one."""
    found = Counter(case.verdicts[column].outcome for case in table.cases.values() if column in case.verdicts)
    return {
        word: found[word]
        for word in ("passed", "failed", "error", "skipped", "not judged", "not applicable")
        if found[word]
    }


def title_of(name: str) -> str:
    """A case's name, ``test_a_pod_runs``, in words."""
    return name.removeprefix("test_").replace("_", " ")


def to_json(table: Table, summary: Mapping[str, Any]) -> str:
    """The summary and all of the table."""
    document = {**summary, **msgspec.to_builtins(table, str_keys=True)}
    return readable(json.dumps(document, indent=1, ensure_ascii=False)) + "\n"


def from_json(text: str | bytes) -> Table:
    """The table out of the text of ``to_json``; the summary in it is not believed. Raises ValueError for anything else."""
    try:
        return msgspec.json.decode(text, type=Table)
    except msgspec.MsgspecError as error:
        raise ValueError(f"not a table of verdicts: {error}") from error


def readable(text: str) -> str:
    """The text, with a mark for each character that no document may have."""
    return _FORBIDDEN.sub("\ufffd", text)
