"""The outcome of the cases, with what the cluster was like before and after: a ``SiteReport`` at the end of a session."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from clusters.api.api_client import ApiClient
from clusters.api.resources import NODES, PODS
from clusters.providers import BARE
from e2e.onsite import machine_recording
from e2e.onsite.site_facts import is_simulated, node_facts, on_this_machine, programs
from e2e.report.sources import state
from e2e.report.verdict_plugin import verdict_of
from e2e.site.findings import Finding
from e2e.site.machine_preflight import machine_preflight
from e2e.site.observe import Observation
from e2e.site.preflight_reading import preflight
from e2e.site.report import site_verdict
from e2e.site.report.report_files import write_reports
from e2e.site.site_report import CaseResult, NodeFacts, PreflightLine, SiteReport

NAME: Final = "gpushare-site-results"
_NODE, _CASE, _PROMISE = "site-node", "site-case", "site-promise"
# Lines about a machine that are only for a node of a cluster.
_OF_NODES: Final = ("container runtime", "device plugin folder", "pod resources")
# Between two looks at the invariants, in seconds.
_LOOK_SECONDS: Final = 2.0


@dataclass
class Visit:
    """The state of the cluster beside the cases."""

    server: str = ""
    kubernetes: str = ""
    are_cards_simulated: bool = True
    programs: tuple[str, ...] = ()
    nodes: tuple[NodeFacts, ...] = ()
    preflight: tuple[PreflightLine, ...] = ()
    findings: list[Finding] = field(default_factory=list)
    recordings: dict[str, Any] = field(default_factory=dict)


VISIT: Final = pytest.StashKey[Visit]()


@contextlib.asynccontextmanager
async def visited(config: pytest.Config, api: ApiClient, names: list[str]) -> AsyncIterator[Visit]:
    """Look at the cluster before the cases, and judge its invariants before and behind."""
    visit = config.stash.setdefault(VISIT, Visit())
    visit.server = api.http.url
    visit.kubernetes = (await api.request("GET", "/version"))["gitVersion"]
    nodes, pods = await api.list(NODES), await api.list(PODS)
    visit.are_cards_simulated = any(map(is_simulated, nodes))
    visit.programs = programs(pods)
    visit.nodes = tuple(node_facts(node) for node in nodes if node["metadata"]["name"] in names)
    if config.getoption("--cluster") == BARE:
        await _record(visit)
    wants_report = config.getoption("--site-report") is not None
    if wants_report:
        visit.findings += await _findings(api)
        visit.preflight = tuple(_of_machine() if config.getoption("--cluster") == BARE else await preflight(api))
    yield visit
    if wants_report:
        known = {finding.key for finding in visit.findings}
        visit.findings += [finding for finding in await _findings(api) if finding.key not in known]


def _of_machine() -> list[PreflightLine]:
    """Judge this machine, but not as a node of a cluster, which it need not be."""
    return [line for line in machine_preflight() if line.name not in _OF_NODES]


async def _record(visit: Visit) -> None:
    """Record this machine, which is the one node."""
    recording = await machine_recording.record()
    visit.are_cards_simulated = recording["simulated"]
    visit.nodes = tuple(on_this_machine(node, recording["driver"]) for node in visit.nodes)
    visit.recordings = {node.name: recording for node in visit.nodes}


async def _findings(api: ApiClient) -> list[Finding]:
    observation = Observation(api, _LOOK_SECONDS, lambda line: None)
    return (await observation.run(api.http.url, 0.0, asyncio.Event())).findings


class SiteResults:
    """Collects the cases of one session in this process, and writes their report to ``--site-report``."""

    def __init__(self, config: pytest.Config, cases: Path) -> None:
        self._config = config
        self._folder_of_cases = cases
        self._started = datetime.now(UTC)
        self._results: dict[str, CaseResult] = {}
        self._line = ""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Each case's node and promise, into its properties."""
        for item in items:
            if (
                self._folder_of_cases in item.path.parents
                and isinstance(item, pytest.Function)
                and hasattr(item, "callspec")
            ):
                promise = " ".join((item.function.__doc__ or "").strip().split("\n\n")[0].split())
                node = item.callspec.params.get("node", "")
                item.user_properties += [(_NODE, node), (_CASE, item.originalname), (_PROMISE, promise)]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One phase of a case: the first trouble is its verdict."""
        facts = dict(report.user_properties)
        if _CASE not in facts:
            return
        before = self._results.get(report.nodeid)
        seconds = report.duration + (before.seconds if before is not None else 0.0)
        verdict = verdict_of(report)
        if before is not None and (verdict is None or before.verdict != "passed"):
            self._results[report.nodeid] = msgspec.structs.replace(before, seconds=seconds)
        elif verdict is not None:
            outcome = "failed" if verdict.outcome == "error" else verdict.outcome
            name, node, promise = (str(facts[key]) for key in (_CASE, _NODE, _PROMISE))
            self._results[report.nodeid] = CaseResult(name, node, promise, outcome, verdict.reason, seconds)

    def pytest_sessionfinish(self) -> None:
        """Write the report."""
        folder = self._config.getoption("--site-report")
        if folder is None or not self._results:
            return
        report = self.report()
        write_reports(report, folder)
        self._line = f"{site_verdict.verdict_of(report).line} The report is in {folder}."

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The verdict, in one line."""
        if self._line:
            terminalreporter.write_line(self._line)

    def report(self) -> SiteReport:
        """Everything so far."""
        visit = self._config.stash.get(VISIT, Visit())
        return SiteReport(
            kind=self._config.getoption("--cluster"),
            are_cards_simulated=visit.are_cards_simulated,
            started=self._started.strftime("%Y-%m-%dT%H:%M:%SZ"),
            seconds=(datetime.now(UTC) - self._started).total_seconds(),
            server=visit.server,
            kubernetes=visit.kubernetes,
            target=Path(self._config.getoption("--target")).stem,
            programs=visit.programs,
            commit=state(self._config.rootpath),
            nodes=visit.nodes,
            preflight=visit.preflight,
            cases=tuple(self._results.values()),
            findings=tuple(visit.findings),
            recordings=visit.recordings,
        )
