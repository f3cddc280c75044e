"""pytest's reports of a run, as verdicts: listens to the cases, and writes the table when the session ends.

A case's column is the target of ``--target`` on the cluster of ``--cluster``; one that compares the embedded cluster with the real
control plane stands in the columns of both. Tests that use no cluster are the judge's own checks, and are not in the table. The
facts of a case go along in its report's properties (``case-id``, ``cluster``, ``kubernetes``), which JUnit files show, and which
come back from the processes of pytest-xdist, as do the attributes that ``Recorder`` adds to the report of a failure.
"""

from __future__ import annotations

import contextlib
import datetime
import shlex
import sys
from collections import deque
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from clusters.api.exchanges import LISTENERS, Event, Exchange
from clusters.processes.program import LAUNCHED
from e2e import promises
from e2e.report import verdict_files
from e2e.report.sources import state
from e2e.report.verdict_table import Case, Column, Evidence, Outcome, Table, Verdict, columns_of, readable
from e2e.report.verdicts import judged_musts, judged_promises, judgements, of_promise
from e2e.target_capabilities import NOT_APPLICABLE

NAME: Final = "gpushare-verdicts"
# The release that the session's cluster reports, once it is up.
KUBERNETES: Final = pytest.StashKey[str]()
CASE_ID, CLUSTER, RELEASE, TEXT = "case-id", "cluster", "kubernetes", "text"
# The phase of a test that has ended its process, as pytest-xdist reports it.
_ENDED_ITS_PROCESS: Final = "???"
# Fixtures by which a case is on a cluster, and by which it is on both kinds of control plane.
_ON_ONE: Final = frozenset({"choices", "cluster"})
_ON_BOTH: Final = frozenset({"sides", "bare_sides", "sessions"})
_BOTH: Final = ("embedded", "controlplane")
_LONGEST_REASON: Final = 300
# The outcomes that a later phase of the case does not change.
_FINAL: Final[tuple[Outcome, ...]] = ("failed", "error", "skipped", "not applicable")
# The attribute of a pytest report that has the evidence, as plain data, so that a worker can send it.
EVIDENCE: Final = "evidence"
# True of a report whose case met an exception that is no assertion.
CRASH: Final = "is_crash"
_LAST_EXCHANGES: Final = 6
_LONGEST: Final = 6_000
_LONGEST_OF_AN_EXCHANGE: Final = 2_000
_LOG_LINES: Final = 40
# Nothing is judged of these programs, so their logs are of no use.
_BESIDE: Final = frozenset({"etcd", "kube-apiserver", "kube-controller-manager", "kubectl port-forward"})


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
        if verdict is None or not clusters:
            return
        # The verdict on a whole cluster, which has no text, is no case that could be repeated.
        command = self._command(report) if TEXT in properties or _ended_its_process(report) else ""
        if report.failed and command:
            self._again[command] = None
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
        """The command that repeats the case alone, by the names that files and options have in our checkout."""
        path, root = Path(sys.executable), self._config.rootpath
        python = str(path.relative_to(root)) if path.is_relative_to(root) else "python"
        where = ("--cluster", self._cluster, "--target", self._target)
        return shlex.join([python, "-m", "pytest", report.nodeid, *where])

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


def _promises_of(run: Table, rows: Iterable[promises.Promise]) -> list[str]:
    """The promises that a column does not keep, or that it may not."""
    judged = judged_promises(run, rows)
    found = [(column, one, of_promise(run, column, one.id)) for column in columns_of(run) for one in judged]
    return [f"{one.id} {one.text} ({column}): {it.text}" for column, one, it in found if it.word == "fail"]


class Recorder:
    """Keeps the last exchanges, and makes the evidence, as pytest's hooks: register it as a plugin."""

    def __init__(self) -> None:
        self._exchanges: deque[Exchange] = deque(maxlen=_LAST_EXCHANGES)
        self._log_sizes: dict[Path, int] = {}

    def pytest_sessionstart(self) -> None:
        """Listen to the exchanges."""
        LISTENERS.append(self.take)

    def pytest_sessionfinish(self) -> None:
        """Listen no longer."""
        LISTENERS.remove(self.take)

    def take(self, event: Event) -> None:
        """Keep an exchange unformatted, as most are of cases that pass; of a question that is repeated keep the last answer."""
        if isinstance(event, Exchange):
            last = self._exchanges[-1] if self._exchanges else None
            if last is not None and (last.asked, last.question) == (event.asked, event.question):
                self._exchanges.pop()
            self._exchanges.append(event)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """A case begins with nothing; what its programs wrote before is not its own."""
        self._exchanges.clear()
        self._log_sizes = {path: _size(path) for program in LAUNCHED for path in program.log_files()}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put the evidence of a failure into its report."""
        report = yield
        if report.failed and call.excinfo is not None:
            setattr(report, CRASH, not is_assertion(call.excinfo.value))
            setattr(report, EVIDENCE, msgspec.to_builtins(self._evidence(report.longreprtext)))
        return report

    def _evidence(self, account: str) -> Evidence:
        logs = {
            program.name: text
            for program in sorted(LAUNCHED, key=lambda one: one.name)
            if program.name not in _BESIDE and (text := _tail(program.log_files(), self._log_sizes))
        }
        # The cause is at the end.
        return Evidence(readable(account[-_LONGEST:]), tuple(map(_exchange, self._exchanges)), logs)


def is_assertion(error: BaseException) -> bool:
    """Is it a judgement about the target, and not a crash of the case?"""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_assertion, error.exceptions))
    return isinstance(error, AssertionError | pytest.fail.Exception)


def _exchange(one: Exchange) -> str:
    question, answer = (
        part.decode(errors="replace") if isinstance(part, bytes) else str(part) for part in (one.question, one.answer)
    )
    question = "" if question == "None" else f"\n{_shortened(question, _LONGEST_OF_AN_EXCHANGE)}"
    return readable(f"{one.asked}{question}\n-> {one.code} {_shortened(answer, _LONGEST_OF_AN_EXCHANGE)}")


def _shortened(text: str, longest: int = _LONGEST) -> str:
    more = f"… ({len(text)} characters)" if len(text) > longest else ""
    return readable(text[:longest].rstrip()) + more


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _tail(paths: Iterable[Path], begun: Mapping[Path, int]) -> str:
    """The last lines of these files, without the first bytes of each that ``begun`` has."""
    lines: list[str] = []
    for path in paths:
        with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
            file.seek(begun.get(path, 0))
            lines += file.read().decode(errors="replace").splitlines()
    return _shortened("\n".join(lines[-_LOG_LINES:]))
