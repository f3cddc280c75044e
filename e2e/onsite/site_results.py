"""The outcome of the cases, with what the cluster was like before and after: the table of a validation at the end of a session."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from clusters.api.api_client import ApiClient, ApiError
from clusters.api.connection import TransportError
from clusters.api.resources import NODES, PODS
from clusters.providers import BARE
from e2e.onsite import machine_recording
from e2e.onsite.case_run import LOG_FILE, console_of
from e2e.onsite.gaps import leaves_gap, why_not_judged
from e2e.onsite.site_nodes import node_facts, on_this_machine, programs
from e2e.onsite.tenancy import LEFT
from e2e.report.sources import state
from e2e.report.verdict_files import write
from e2e.report.verdict_plugin import verdict_of
from e2e.report.verdict_table import (
    WHOLE_CLUSTER,
    Case,
    Column,
    Outcome,
    PreflightLine,
    Table,
    Validated,
    Verdict,
    title_of,
)
from e2e.report.verdicts import of_site
from e2e.site import SiteError
from e2e.site.findings import Finding
from e2e.site.machine_preflight import machine_preflight
from e2e.site.observe import Observation
from e2e.site.preflight import preflight
from e2e.site.unexpected import sentence

NAME: Final = "gpushare-site-results"
# Lines about a machine that are only for a node of a cluster.
_OF_NODES: Final = ("container runtime", "device plugin folder", "pod resources")
# Between two looks at the invariants, in seconds.
_LOOK_SECONDS: Final = 2.0
_NOT_BEGUN: Final = "the run ended before this case had a result"


@dataclass
class Visit:
    """The site beside the cases; ``extra`` results are of steps that are no cases, and went wrong."""

    site: Validated
    extra: dict[str, Case] = field(default_factory=dict)


VISIT: Final = pytest.StashKey[Visit]()


async def look_before(config: pytest.Config, api: ApiClient, names: list[str]) -> Visit:
    """Look at the cluster before the cases, and judge its invariants if a report is wanted."""
    kubernetes = (await api.request("GET", "/version"))["gitVersion"]
    nodes, pods = await api.list(NODES), await api.list(PODS)
    facts = tuple(node_facts(node, pods) for node in nodes if node["metadata"]["name"] in names)
    kind = config.getoption("--cluster")
    run = Column(Path(config.getoption("--target")).stem, kind, kubernetes, "")
    site = Validated(run, server=api.http.url, programs=programs(pods), nodes=facts)
    if kind == BARE:
        # This machine is the one node.
        recording = await machine_recording.record()
        facts = tuple(on_this_machine(node, recording["driver"], recording["simulated"]) for node in facts)
        site = replace(site, nodes=facts, recordings={node.name: recording for node in facts})
    if _wants_report(config):
        findings = tuple(await _findings(api))
        site = replace(
            site, findings=findings, preflight=tuple(_of_machine() if kind == BARE else await preflight(api))
        )
    return Visit(site)


async def look_behind(config: pytest.Config, api: ApiClient, visit: Visit) -> None:
    """Judge the invariants again; a cluster that cannot be looked at is a gap in the report, and not a fault of a case."""
    if not _wants_report(config):
        return
    known = {finding.key: finding for finding in visit.site.findings}
    try:
        found = {finding.key: finding for finding in await _findings(api)}
        visit.site = replace(visit.site, findings=tuple((found | known).values()))
    except (SiteError, ApiError, TransportError) as error:
        promise = "The cluster breaks no invariant of sharing after the cases."
        visit.extra["look-behind"] = Case((), {WHOLE_CLUSTER: Verdict("not judged", str(error))}, promise)


def note_clean_up(config: pytest.Config, visit: Visit, error: BaseException) -> None:
    """Put a clean-up that failed into the report. Raises its error if no report is wanted, or if it is that of Ctrl-C."""
    promise = "Everything that the run created is gone."
    told = error.__cause__ if isinstance(error, asyncio.CancelledError) and error.__cause__ else error
    reason = f"{sentence(told, LOG_FILE)}; {LEFT}"
    visit.extra["clean-up"] = Case((), {WHOLE_CLUSTER: Verdict("failed", reason)}, promise)
    if not isinstance(error, Exception) or not _wants_report(config):
        raise error


def _wants_report(config: pytest.Config) -> bool:
    return config.getoption("--site-report") is not None


def _of_machine() -> list[PreflightLine]:
    """Judge this machine, but not as a node of a cluster, which it need not be."""
    return [line for line in machine_preflight() if line.name not in _OF_NODES]


async def _findings(api: ApiClient) -> list[Finding]:
    observation = Observation(api, _LOOK_SECONDS, lambda line: None)
    return (await observation.run(0.0, asyncio.Event())).findings


class SiteResults:
    """Collects the cases of one session in this process, and writes their report to ``--site-report``."""

    def __init__(self, config: pytest.Config, cases: Path) -> None:
        self._config = config
        self._folder_of_cases = cases
        self._started = datetime.now(UTC)
        self._cases: dict[str, Case] = {}
        # Case and node of each result, by pytest's id.
        self._places: dict[str, tuple[str, str]] = {}
        self._lines: list[str] = []
        self._sentences: dict[str, str] = {}
        self._gaps: set[str] = set()
        self._told: set[str] = set()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Each case of a node is in the report, even if the run ends before it."""
        for item in items:
            callspec = getattr(item, "callspec", None)
            if (
                self._folder_of_cases in item.path.parents
                and isinstance(item, pytest.Function)
                and callspec is not None
                and "node" in callspec.params
            ):
                promise = " ".join((item.function.__doc__ or "").strip().split("\n\n")[0].split())
                name, node = self._places[item.nodeid] = item.originalname, callspec.params["node"]
                case = self._cases.setdefault(name, Case((), {}, promise))
                case.verdicts[node] = Verdict("not judged", _NOT_BEGUN)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """The first error of a case in a sentence; pytest's own words about it are for the log."""
        report = yield
        if report.failed and call.excinfo is not None:
            self._sentences.setdefault(item.nodeid, sentence(call.excinfo.value, LOG_FILE))
            if leaves_gap(call.excinfo.value):
                self._gaps.add(item.nodeid)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One phase of a case: its last word counts, but the first failure is the one that is reported."""
        if report.nodeid not in self._places:
            return
        name, node = self._places[report.nodeid]
        before = verdict = self._cases[name].verdicts[node]
        found = None if before.outcome == "failed" else verdict_of(report)
        if found is not None and found.outcome in ("failed", "error"):
            word: Outcome = "not judged" if report.nodeid in self._gaps else "failed"
            verdict = Verdict(word, self._sentences.get(report.nodeid, found.reason))
        elif found is not None and found.outcome == "passed":
            verdict = Verdict("passed")
        elif found is not None:
            gap = why_not_judged(found.reason)
            verdict = Verdict("not judged", gap) if gap else Verdict("not applicable", found.reason)
        seconds = before.seconds + report.duration
        self._cases[name].verdicts[node] = replace(verdict, seconds=seconds)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """A line for the administrator as soon as a case has ended."""
        console = console_of(self._config)
        if console is None or nodeid not in self._places:
            return
        name, node = self._places[nodeid]
        verdict = self._cases[name].verdicts[node]
        self._told.add(nodeid)
        word = verdict.outcome.upper() if verdict.outcome == "failed" else verdict.outcome
        counted = f"{len(self._told)}/{len(self._places)}"
        text = ": ".join(filter(None, (node, title_of(name), verdict.reason)))
        console.say(f"{counted:>7}  {word:14}  {text}")

    # Around pytest's own, which ends the fixtures of an interrupted run, and inside of that which prints the summary.
    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self) -> Generator[None]:
        """Write the report after the clean-up."""
        try:
            return (yield)
        finally:
            self._write()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The verdict in one line, after what else went wrong."""
        console = console_of(self._config)
        for line in self._lines:
            (terminalreporter.write_line if console is None else console.say)(line)

    def _write(self) -> None:
        folder = self._config.getoption("--site-report")
        visit = self._config.stash.get(VISIT, None)
        if folder is None or visit is None:
            return
        self._lines = [f"{name}: {one.verdicts[WHOLE_CLUSTER].reason}" for name, one in visit.extra.items()]
        run = replace(visit.site.run, date=self._started.strftime("%Y-%m-%dT%H:%M:%SZ"))
        site = replace(visit.site, run=run, seconds=(datetime.now(UTC) - self._started).total_seconds())
        cases = self._cases | visit.extra
        names = [one.name for one in site.nodes] + [name for case in cases.values() for name in case.verdicts]
        table = Table(state(self._config.rootpath), dict.fromkeys(names, run), cases, site)
        verdict = of_site(table, site)
        try:
            write(folder, table, ())
        except OSError as error:
            self._lines.append(f"{verdict.text} The report could not be written: {error}")
        else:
            self._lines.append(f"{verdict.text} The report is in {folder}.")
            if console_of(self._config) is not None and verdict.word != "passed":
                self._lines.append(f"The details are in {folder / LOG_FILE}.")
