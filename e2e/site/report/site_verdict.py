"""The verdict of a validation. Pure; what was not shown has not passed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from e2e.site.site_report import SiteReport, columns_of


@dataclass(frozen=True, slots=True)
class SiteVerdict:
    """``why`` is one sentence."""

    word: Literal["passed", "failed", "incomplete"]
    why: str
    simulated: str
    """The cards that are simulated, as ``simulated cards on n1``; "" if none is."""

    @property
    def title(self) -> str:
        """The verdict in a few words, which never hide that cards are simulated."""
        return f"{self.word} with {self.simulated}" if self.simulated else self.word

    @property
    def line(self) -> str:
        """The verdict in one line."""
        return f"{self.title}: {self.why}"


def verdict_of(report: SiteReport) -> SiteVerdict:
    """Passed: no case failed or is left open, one passed on every node, no finding is an error, preflight found nothing wrong."""
    simulated = _simulated(report)
    if why := next(_failures(report), ""):
        return SiteVerdict("failed", why, simulated)
    if why := next(_gaps(report), ""):
        return SiteVerdict("incomplete", why, simulated)
    count = {word: sum(case.verdict == word for case in report.cases) for word in ("passed", "not judged")}
    nodes = len([name for name in columns_of(report) if name])
    left_out = f", {count['not judged']} not judged" if count["not judged"] else ""
    why = f"{count['passed']} results are good on {nodes} node{'s' * (nodes > 1)}{left_out}, and none is bad."
    return SiteVerdict("passed", why, simulated)


def kind_of_cards(report: SiteReport) -> str:
    """``real``, ``simulated``, or which are which."""
    some = _some_simulated(report)
    return (
        f"simulated on {some}, real on the other nodes"
        if some
        else "simulated"
        if report.are_cards_simulated
        else "real"
    )


def _simulated(report: SiteReport) -> str:
    some = _some_simulated(report)
    return f"simulated cards on {some}" if some else "simulated cards" if report.are_cards_simulated else ""


def _some_simulated(report: SiteReport) -> str:
    """The nodes with simulated cards if others have real ones, else ""."""
    names = [node.name for node in report.nodes if node.are_cards_simulated]
    return ", ".join(names) if len(names) < len(report.nodes) else ""


def _failures(report: SiteReport) -> Iterator[str]:
    failed = [f"{case.title} on {case.node or 'the cluster'}" for case in report.cases if case.verdict == "failed"]
    if failed:
        yield f"{len(failed)} of {len(report.cases)} results failed, first {failed[0]}."
    errors = [f"{finding.rule} of {finding.subject}" for finding in report.findings if finding.severity == "error"]
    if errors:
        yield f"The cluster breaks {len(errors)} invariant{'s' * (len(errors) > 1)} of sharing, first {errors[0]}."


def _gaps(report: SiteReport) -> Iterator[str]:
    """Each thing that is missing for a pass."""
    for line in report.preflight:
        if line.judgement == "wrong":
            yield f"Preflight found {line.name} of {line.subject} wrong."
    nodes = [name for name in columns_of(report) if name]
    if not nodes:
        yield "No node was validated."
    if gaps := [case for case in report.cases if case.leaves_gap]:
        first = f"{gaps[0].title} on {gaps[0].node or 'the cluster'}: {' '.join(gaps[0].reason.split())}"
        yield f"{len(gaps)} of {len(report.cases)} results could not be judged, first {first.rstrip('.')}."
    passed = {case.node for case in report.cases if case.verdict == "passed"}
    if missing := [name for name in nodes if name not in passed]:
        yield f"No case passed on {len(missing)} of {len(nodes)} nodes, first {missing[0]}."
