"""The outcome of the cases, with what the cluster was like before and after: the table of a validation at the end of a session."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from clusters.api.api_client import ApiClient, ApiError
from clusters.api.connection import TransportError
from clusters.api.resources import NODES, PODS
from clusters.providers import BARE
from e2e.onsite import machine_recording
from e2e.onsite.console import LOG_FILE, console_of
from e2e.onsite.gaps import leaves_gap, why_not_judged
from e2e.onsite.site_facts import node_facts, on_this_machine, programs
from e2e.report.sources import state
from e2e.report.verdict_files import write
from e2e.report.verdict_plugin import verdict_of
from e2e.report.verdict_table import (
    WHOLE_CLUSTER,
    Case,
    Column,
    NodeFacts,
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
from e2e.site.preflight_reading import preflight
from e2e.site.unexpected import sentence
from e2e.site.validation_namespace import NAMESPACE

NAME: Final = "gpushare-site-results"
# Lines about a machine that are only for a node of a cluster.
_OF_NODES: Final = ("container runtime", "device plugin folder", "pod resources")
# Between two looks at the invariants, in seconds.
_LOOK_SECONDS: Final = 2.0
_NOT_BEGUN: Final = "the run ended before this case had a result"
LEFT: Final = (
    f"if something of this run is left, `kubectl get pods,leases --namespace {NAMESPACE}` shows it, and the next run "
    "removes it"
)


@dataclass
class Visit:
    """The state of the cluster beside the cases; ``extra`` results are of steps that are no cases, and went wrong."""

    server: str
    kubernetes: str
    programs: tuple[str, ...]
    nodes: tuple[NodeFacts, ...]
    preflight: tuple[PreflightLine, ...] = ()
    findings: list[Finding] = field(default_factory=list)
    recordings: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Case] = field(default_factory=dict)

    @property
    def simulated_nodes(self) -> set[str]:
        """The nodes that have simulated cards."""
        return {node.name for node in self.nodes if node.are_cards_simulated}


VISIT: Final = pytest.StashKey[Visit]()


async def look_before(config: pytest.Config, api: ApiClient, names: list[str]) -> Visit:
    """Look at the cluster before the cases, and judge its invariants if a report is wanted."""
    kubernetes = (await api.request("GET", "/version"))["gitVersion"]
    nodes, pods = await api.list(NODES), await api.list(PODS)
    facts = tuple(node_facts(node, pods) for node in nodes if node["metadata"]["name"] in names)
    visit = Visit(api.http.url, kubernetes, programs(pods), facts)
    is_bare = config.getoption("--cluster") == BARE
    if is_bare:
        await _record(visit)
    if _wants_report(config):
        visit.findings += await _findings(api)
        visit.preflight = tuple(_of_machine() if is_bare else await preflight(api))
    return visit


async def look_behind(config: pytest.Config, api: ApiClient, visit: Visit) -> None:
    """Judge the invariants again; a cluster that cannot be looked at is a gap in the report, and not a fault of a case."""
    if not _wants_report(config):
        return
    known = {finding.key for finding in visit.findings}
    try:
        visit.findings += [finding for finding in await _findings(api) if finding.key not in known]
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


async def _record(visit: Visit) -> None:
    """Record this machine, which is the one node."""
    recording = await machine_recording.record()
    visit.nodes = tuple(on_this_machine(node, recording["driver"], recording["simulated"]) for node in visit.nodes)
    visit.recordings = {node.name: recording for node in visit.nodes}


async def _findings(api: ApiClient) -> list[Finding]:
    observation = Observation(api, _LOOK_SECONDS, lambda line: None)
    return (await observation.run(0.0, asyncio.Event())).findings


class _Result(msgspec.Struct):
    """One case on one node."""

    name: str
    node: str
    text: str
    verdict: Verdict = Verdict("not judged", _NOT_BEGUN)
    seconds: float = 0.0


class SiteResults:
    """Collects the cases of one session in this process, and writes their report to ``--site-report``."""

    def __init__(self, config: pytest.Config, cases: Path) -> None:
        self._config = config
        self._folder_of_cases = cases
        self._started = datetime.now(UTC)
        self._results: dict[str, _Result] = {}
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
                self._results[item.nodeid] = _Result(item.originalname, callspec.params["node"], promise)

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
        if (result := self._results.get(report.nodeid)) is None:
            return
        result.seconds += report.duration
        found = verdict_of(report)
        if found is None or result.verdict.outcome == "failed":
            return
        if found.outcome in ("failed", "error"):
            word: Outcome = "not judged" if report.nodeid in self._gaps else "failed"
            result.verdict = Verdict(word, self._sentences.get(report.nodeid, found.reason))
        elif found.outcome == "passed":
            result.verdict = Verdict("passed")
        else:
            gap = why_not_judged(found.reason)
            result.verdict = Verdict("not judged", gap) if gap else Verdict("not applicable", found.reason)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """A line for the administrator as soon as a case has ended."""
        console, result = console_of(self._config), self._results.get(nodeid)
        if console is None or result is None:
            return
        self._told.add(nodeid)
        verdict = result.verdict
        word = verdict.outcome.upper() if verdict.outcome == "failed" else verdict.outcome
        counted = f"{len(self._told)}/{len(self._results)}"
        text = ": ".join(filter(None, (result.node, title_of(result.name), verdict.reason)))
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
        site = self._site(visit)
        table = self._table(visit, site)
        verdict = of_site(table, site)
        try:
            write(folder, table, ())
        except OSError as error:
            self._lines.append(f"{verdict.text} The report could not be written: {error}")
        else:
            self._lines.append(f"{verdict.text} The report is in {folder}.")
            if console_of(self._config) is not None and verdict.word != "passed":
                self._lines.append(f"The details are in {folder / LOG_FILE}.")

    def _site(self, visit: Visit) -> Validated:
        started = self._started.strftime("%Y-%m-%dT%H:%M:%SZ")
        target, kind = Path(self._config.getoption("--target")).stem, self._config.getoption("--cluster")
        return Validated(
            Column(target, kind, visit.kubernetes, started),
            seconds=(datetime.now(UTC) - self._started).total_seconds(),
            server=visit.server,
            programs=visit.programs,
            nodes=visit.nodes,
            preflight=visit.preflight,
            findings=tuple(visit.findings),
            recordings=visit.recordings,
        )

    def _table(self, visit: Visit, site: Validated) -> Table:
        cases: dict[str, Case] = {}
        for result in self._results.values():
            case = cases.setdefault(result.name, Case((), {}, result.text))
            case.verdicts[result.node] = msgspec.structs.replace(result.verdict, seconds=result.seconds)
        cases |= visit.extra
        names = [one.name for one in site.nodes] + [name for case in cases.values() for name in case.verdicts]
        return Table(state(self._config.rootpath), dict.fromkeys(names, site.run), cases, site)
