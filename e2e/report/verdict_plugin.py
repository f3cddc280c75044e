"""pytest's reports of a run, as verdicts: listens to the cases, and writes the table when the session ends.

A case's column is the target of ``--target`` on the cluster of ``--cluster``; one that compares the embedded cluster with the real
control plane stands in the columns of both. Tests that use no cluster are the judge's own checks, and are not in the table. The
facts of a case go along in its report's properties (``case-id``, ``cluster``, ``kubernetes``), which JUnit files show, and which
come back from the processes of pytest-xdist, as do the attributes that ``evidence`` adds to the report of a failure.
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from e2e import promises
from e2e.report import verdict_files
from e2e.report.evidence import CRASH, EVIDENCE
from e2e.report.markup import readable
from e2e.report.repeating import again
from e2e.report.sources import state
from e2e.report.verdict_table import Case, Column, Evidence, Outcome, Table, Verdict, columns_of
from e2e.report.verdicts import judged_musts, judged_promises, judgements, of_promise
from e2e.target_capabilities import NOT_APPLICABLE

NAME: Final = "gpushare-verdicts"
# The release that the session's cluster reports, once it is up.
KUBERNETES: Final = pytest.StashKey[str]()
CASE_ID, CLUSTER, RELEASE, TEXT = "case-id", "cluster", "kubernetes", "text"
# Under this name a report that is of no test has the process that it is about.
PROCESS: Final = "process"
# The phase of a test that has ended its process, as pytest-xdist reports it.
_ENDED_ITS_PROCESS: Final = "???"
# Fixtures by which a case is on a cluster, and by which it is on both kinds of control plane.
_ON_ONE: Final = frozenset({"choices", "cluster"})
_ON_BOTH: Final = frozenset({"sides", "bare_sides", "sessions"})
_BOTH: Final = ("embedded", "controlplane")
_LONGEST_REASON: Final = 300
# The outcomes that a later phase of the case does not change.
_FINAL: Final[tuple[Outcome, ...]] = ("failed", "error", "skipped", "not applicable")


def add_options(group: pytest.OptionGroup) -> None:
    """Where the table goes."""
    group.addoption(
        "--verdicts",
        type=Path,
        default=Path("artefacts"),
        help="folder of the report: verdicts.html and verdicts.json (default: artefacts)",
    )
    group.addoption(
        "--must-judge",
        type=int,
        default=0,
        metavar="N",
        help="fail if the report has a verdict on fewer of the promises that each target must keep (default: 0)",
    )


class Verdicts:
    """One session; register it with pytest's plugin manager under ``NAME``. The cases are those that lie in ``cases``."""

    def __init__(self, config: pytest.Config, cases: Path) -> None:
        self._config = config
        self._folder_of_cases = cases
        self._folder = config.rootpath / config.getoption("--verdicts", default=Path("artefacts"))
        self._cluster: str = config.getoption("--cluster", default="embedded")
        self._target: str = config.getoption("--target", default="gpushare")
        self._releases: dict[str, str] = {}
        self._cases: dict[str, Case] = {}
        self._lines: list[str] = []
        # By process, the files of which it has begun a test, in their order.
        self._begun: dict[str, dict[str, None]] = {}
        # The commands that repeat the failures; a dictionary keeps their order.
        self._again: dict[str, None] = {}
        self._must_judge: int = config.getoption("--must-judge", default=0)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """The facts of each case, into its properties."""
        for item in (item for item in items if self._folder_of_cases in item.path.parents):
            clusters = clusters_of(getattr(item, "fixturenames", ()), self._cluster)
            if clusters:
                item.user_properties += [(CLUSTER, name) for name in clusters]
                item.user_properties += [(CASE_ID, one) for one in promises.ids_of(item)]
                text = getattr(getattr(item, "function", None), "__doc__", None) or ""
                item.user_properties.append((TEXT, " ".join(text.split())))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """The cluster's release, as soon as it is known."""
        release = item.config.stash.get(KUBERNETES, None)
        named = dict(item.user_properties)
        if release and named.get(CLUSTER) == self._cluster and RELEASE not in named:
            item.user_properties.append((RELEASE, release))
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One phase of a case: set-up, call or tear-down."""
        properties = dict(report.user_properties)
        clusters = [str(value) for name, value in report.user_properties if name == CLUSTER]
        if _ended_its_process(report):
            clusters = [self._cluster]
        verdict = verdict_of(report)
        command = self._command(report) if clusters or report.nodeid.startswith("e2e/") else ""
        if report.failed and command:
            self._again[command] = None
        if verdict is None or not clusters:
            return
        if RELEASE in properties:
            self._releases[self._cluster] = str(properties[RELEASE])
        before = self._cases.get(report.nodeid)
        if before is not None and any(known.outcome in _FINAL for known in before.verdicts.values()):
            return  # the first trouble is the verdict; what then goes wrong in the tear-down follows from it
        if verdict.evidence is not None:
            evidence = msgspec.structs.replace(verdict.evidence, again=command)
            verdict = msgspec.structs.replace(verdict, evidence=evidence)
        ids = tuple(str(value) for name, value in report.user_properties if name == CASE_ID)
        columns = [self._column(cluster).name for cluster in clusters]
        self._cases[report.nodeid] = Case(ids, dict.fromkeys(columns, verdict), str(properties.get(TEXT, "")))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the table, if this process is the one that reports and any case ran; fail the session that judged too little."""
        if hasattr(self._config, "workerinput"):
            return
        self._lines = [f"again: {command}" for command in self._again]
        if not self._cases and not self._must_judge:
            return
        run, rows = self._table(), promises.load()
        columns = [f"{name}: {one.text}" for name, one in judgements(run, rows).items()]
        self._lines = [*_promises_of(run, rows), *self._lines, *columns]
        try:
            table = verdict_files.add(self._folder, run, rows)
        except OSError as error:
            self._lines.append(f"report: {self._folder} cannot be written: {error}")
            self._fail_if_too_few(session, run, rows)
            return
        self._fail_if_too_few(session, table, rows)
        page = self._folder / verdict_files.HTML_FILE
        self._lines.append(
            f"report of {len(table.cases)} cases at {table.commit}: {page}, and {verdict_files.JSON_FILE} beside it"
        )

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The promises that are not kept, how to repeat each failure, the verdict, and the report."""
        if self._lines:
            terminalreporter.section("verdicts")
            for line in self._lines:
                terminalreporter.write_line(line)

    def _command(self, report: pytest.TestReport) -> str:
        """The command that repeats the test, or what led to the verdict on the whole cluster of a process."""
        begun = self._begun.setdefault(_process(report), {})
        path = report.nodeid.partition("::")[0]
        if str(report.when) in ("setup", _ENDED_ITS_PROCESS):
            begun[path] = None
        is_alone = path in begun and self._config.getoption("--seed", default=None) is None
        always = {"--cluster": self._cluster, "--target": self._target}
        words = [str(one) for one in self._config.invocation_params.args]
        return again(_python(self._config.rootpath), report.nodeid, always, words, () if is_alone else tuple(begun))

    def _fail_if_too_few(self, session: pytest.Session, table: Table, rows: Iterable[promises.Promise]) -> None:
        column = self._column(self._cluster).name
        judged = judged_musts(table, column, rows)
        if judged < self._must_judge:
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
            asked = f"--must-judge asks for {self._must_judge}"
            self._lines.append(f"{column}: verdicts on {judged} promises that each target must keep; {asked}")

    def _column(self, cluster: str, date: str = "") -> Column:
        minor = str(self._config.getoption("--kubernetes", default=""))
        # The option is for the real programs; the embedded cluster itself reports the release that it imitates.
        release = self._releases.get(cluster, "" if cluster == "embedded" else minor)
        return Column(Path(self._target).stem, cluster, release, date)

    def _table(self) -> Table:
        date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        columns = {}
        for name in dict.fromkeys(name for case in self._cases.values() for name in case.verdicts):
            columns[name] = self._column(name.rpartition(" on ")[2], date)
        return Table(state(self._config.rootpath), columns, dict(sorted(self._cases.items())))


def clusters_of(fixtures: Iterable[str], cluster: str) -> tuple[str, ...]:
    """The clusters that a case with these fixtures speaks for."""
    used = frozenset(fixtures)
    if used & _ON_BOTH:
        return _BOTH
    return (cluster,) if used & _ON_ONE else ()


def verdict_of(report: pytest.TestReport) -> Verdict | None:
    """The outcome of one phase; None for one that was only the way to another.

    A failure outside of the call is an error, and so is an exception that is no assertion.
    """
    if report.skipped:
        reason = _skip_reason(report)
        return Verdict("not applicable" if reason.startswith(NOT_APPLICABLE) else "skipped", reason)
    if report.failed:
        outcome: Outcome = "failed" if report.when == "call" and not getattr(report, CRASH, False) else "error"
        evidence: Any = getattr(report, EVIDENCE, None)
        return Verdict(outcome, _first_line(report), report.duration, evidence and msgspec.convert(evidence, Evidence))
    return Verdict("passed", seconds=round(report.duration, 3)) if report.when == "call" else None


def _ended_its_process(report: pytest.TestReport) -> bool:
    """pytest-xdist reports a case that has ended its process, and knows none of the properties."""
    return str(report.when) == _ENDED_ITS_PROCESS and report.nodeid.startswith("e2e/")


def _process(report: pytest.TestReport) -> str:
    """The process that ran the test: pytest-xdist's reports name it, and so does the verdict on a whole cluster."""
    node = getattr(report, "node", None)
    return str(getattr(report, PROCESS, "main") if node is None else node.gateway.id)


def _skip_reason(report: pytest.TestReport) -> str:
    expected = getattr(report, "wasxfail", None)
    if expected is not None:
        return f"fails, as expected: {expected}"
    words = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
    return readable(" ".join(words.removeprefix("Skipped: ").split())[:_LONGEST_REASON])


def _first_line(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = report.longrepr if isinstance(report.longrepr, str) else report.longreprtext
    lines = (crash.message if crash is not None else text).strip().splitlines() or ["no message"]
    return readable(str(lines[0])[:_LONGEST_REASON])


def _python(root: Path) -> str:
    """The interpreter of this run, as one names it from the checkout."""
    path = Path(sys.executable)
    return str(path.relative_to(root)) if path.is_relative_to(root) else "python"


def _promises_of(run: Table, rows: Iterable[promises.Promise]) -> list[str]:
    """The promises that a column does not keep, or that it may not."""
    judged = judged_promises(run, rows)
    found = [(column, one, of_promise(run, column, one.id)) for column in columns_of(run) for one in judged]
    return [f"{one.id} {one.text} ({column}): {it.text}" for column, one, it in found if it.word == "fail"]
