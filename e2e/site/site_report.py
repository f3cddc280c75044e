"""The result of a validation of an existing cluster or machine, as a value, and its cases by nodes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from e2e.site.findings import Finding

Verdict = Literal["passed", "failed", "not judged"]
Judgement = Literal["ok", "wrong", "unknown"]
NOT_RUN: Final = "not run"
WHOLE_CLUSTER: Final = "whole cluster"
_WORST_FIRST: Final[tuple[Verdict, ...]] = ("failed", "not judged", "passed")


class PreflightLine(msgspec.Struct, frozen=True):
    """One thing that was looked at before anything ran; ``todo`` says what to do unless it is ok."""

    name: str
    """The thing that was looked at, as ``device plugin``."""
    subject: str
    """Where, as ``node a1``, or ``cluster``."""
    judgement: Judgement
    text: str
    todo: str = ""


class CaseResult(msgspec.Struct, frozen=True):
    """One case on one node; ``node`` is "" for one of the whole cluster. ``reason``: why it has not passed."""

    name: str
    node: str
    promise: str
    """The first line of the case's docstring."""
    verdict: Verdict
    reason: str = ""
    seconds: float = 0.0
    lacks_precondition: bool = False
    """It was not judged because it is about something that the site does not have, or that its administrator did not allow; any
    other such case might have shown a fault, and leaves a gap."""

    @property
    def leaves_gap(self) -> bool:
        """Might it have shown a fault, and could not run?"""
        return self.verdict == "not judged" and not self.lacks_precondition

    @property
    def title(self) -> str:
        """The name in words: ``a pod runs on the card that it got``."""
        return title_of(self.name)


class CardFacts(msgspec.Struct, frozen=True):
    """One card, as the node or its driver shows it."""

    index: int
    uuid: str
    model: str
    mib: int
    mig: str = ""
    """``enabled`` or ``disabled``; "" if it is not known."""


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
    mps: str = ""
    other_resources: tuple[str, ...] = ()
    """Extended resources of other plugins that may give out the same cards, as ``nvidia.com/gpu``."""
    are_cards_simulated: bool = False


class SiteReport(msgspec.Struct, frozen=True):
    """Everything that one run found out."""

    kind: str
    """The provider: ``existing``, ``kind``, ``embedded`` or ``bare``."""
    are_cards_simulated: bool
    """Are those of any node?"""
    started: str
    """When, in UTC, as ISO 8601 with seconds."""
    seconds: float
    server: str = ""
    kubernetes: str = ""
    target: str = "gpushare"
    programs: tuple[str, ...] = ()
    """Images of the programs under test, as ``extender gpushare/extender:1.2``."""
    nodes: tuple[NodeFacts, ...] = ()
    preflight: tuple[PreflightLine, ...] = ()
    cases: tuple[CaseResult, ...] = ()
    findings: tuple[Finding, ...] = ()
    """What ``observe`` found before and after the cases."""
    not_run: tuple[str, ...] = ()
    """Each thing that was not run, and why."""
    recordings: dict[str, Any] = {}
    """By node, a box of fake_nvml as its file has it."""
    commit: str = ""
    """The state of this suite's sources, as ``e2e.report.sources`` has it."""
    form: Literal[1] = 1
    """The form of the file; a later one would be another number."""


def title_of(name: str) -> str:
    """A case's name, ``test_a_pod_runs``, in words."""
    return name.removeprefix("test_").replace("_", " ")


def columns_of(*reports: SiteReport) -> list[str]:
    """The nodes as the reports describe them, then those that only cases name; "" is the whole cluster."""
    described = [node.name for report in reports for node in report.nodes]
    return list(dict.fromkeys(described + [case.node for report in reports for case in report.cases]))


def rows_of(*reports: SiteReport) -> dict[str, str]:
    """The promise of each case, by its name."""
    return {case.name: case.promise for report in reversed(reports) for case in report.cases}


def pairs_of(*reports: SiteReport) -> list[tuple[str, str]]:
    """Case and node of each result that is expected: a case of nodes has one on every node, one of the whole cluster just one."""
    kinds = {(case.name, bool(case.node)) for report in reports for case in report.cases}
    nodes = columns_of(*reports)
    return [(name, node) for name in rows_of(*reports) for node in nodes if (name, bool(node)) in kinds]


def cells_of(report: SiteReport) -> Mapping[tuple[str, str], CaseResult]:
    """The results by case and node; of a case that ran several times the worst."""
    worst_last = sorted(
        report.cases, key=lambda case: (_WORST_FIRST.index(case.verdict), case.lacks_precondition), reverse=True
    )
    return {(case.name, case.node): case for case in worst_last}
