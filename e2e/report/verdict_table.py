"""The table of cases by clusters, and how what a run has shown is merged into it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

Outcome = Literal["passed", "skipped", "failed", "error"]
# The outcome of a case is the worst of its parameters' outcomes.
WORST_FIRST: Final[tuple[Outcome, ...]] = ("error", "failed", "skipped", "passed")
# The columns, from the instant to the real; others come after them.
CLUSTERS: Final = ("embedded", "controlplane", "kind")


class Verdict(msgspec.Struct, frozen=True):
    """The result of one case on one cluster."""

    outcome: Outcome
    reason: str = ""
    """Why it was skipped, or how it failed, in one line."""


class Column(msgspec.Struct, frozen=True):
    """A cluster's last run."""

    kubernetes: str
    """Its release (``v1.36.3``); its minor, or nothing, where no API server was asked."""
    date: str
    """When the run ended, UTC, as RFC 3339 has it."""


class Case(msgspec.Struct, frozen=True):
    """One row: ``promises`` are ids of ``e2e.promises``, ``verdicts`` are by cluster; a cluster that is missing did not run it."""

    promises: tuple[str, ...] = ()
    verdicts: dict[str, Verdict] = {}


class Table(msgspec.Struct, frozen=True):
    """All of it. ``cases`` are by pytest's node id."""

    commit: str
    """The state of the sources."""
    target: str
    """The programs that were judged."""
    columns: dict[str, Column] = {}
    cases: dict[str, Case] = {}
    form: Literal[1] = 1
    """The form of the file; a later one would be another number."""


def columns_of(clusters: Iterable[str]) -> list[str]:
    """The three that are always shown, then the others by name."""
    return [*CLUSTERS, *sorted(set(clusters) - set(CLUSTERS))]


def merged(before: Table | None, run: Table) -> Table:
    """The former table, with this run over it: cell by cell, as a run may be a part of the suite.

    Nothing stays of other sources or another target, and of a cluster's column nothing if its Kubernetes is of another
    minor: a table never mixes results about different things.
    """
    if before is None or (before.commit, before.target) != (run.commit, run.target):
        return run
    kept = {name for name, column in before.columns.items() if _goes_on(column, run.columns.get(name))}
    cases = {}
    for case in sorted(before.cases.keys() | run.cases.keys()):
        old, new = before.cases.get(case, Case()), run.cases.get(case, Case())
        verdicts = {**{name: verdict for name, verdict in old.verdicts.items() if name in kept}, **new.verdicts}
        if verdicts:
            cases[case] = Case(new.promises or old.promises, verdicts)
    columns = {name: before.columns[name] for name in before.columns if name in kept}
    now = {name: _continued(columns.get(name), column) for name, column in run.columns.items()}
    return Table(run.commit, run.target, {**columns, **now}, cases)


def _goes_on(before: Column, now: Column | None) -> bool:
    return (
        now is None
        or not (now.kubernetes and before.kubernetes)
        or minor_of(before.kubernetes) == minor_of(now.kubernetes)
    )


def _continued(before: Column | None, now: Column) -> Column:
    """The more exact of what both say of the release."""
    exact = max(before.kubernetes, now.kubernetes, key=len) if before else now.kubernetes
    return Column(now.kubernetes if len(now.kubernetes) == len(exact) else exact, now.date)


def minor_of(release: str) -> str:
    """``1.36`` of ``v1.36.3`` or ``1.36``."""
    return ".".join(release.removeprefix("v").split(".")[:2])


def counts(table: Table, cluster: str) -> dict[str, int]:
    """How many cases passed, were skipped, failed, met an error, and did not run on a cluster; each parameter is one."""
    found = dict.fromkeys(("passed", "skipped", "failed", "error", "not run"), 0)
    for case in table.cases.values():
        verdict = case.verdicts.get(cluster)
        found["not run" if verdict is None else verdict.outcome] += 1
    return found
