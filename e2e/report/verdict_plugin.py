"""pytest's reports of a run, as verdicts: listens to the cases, and writes the table when the session ends.

A case's column is the cluster of ``--cluster``; one that compares the embedded cluster with the real control plane stands in
both columns. Tests that use no cluster are the judge's own checks, and are not in the table. A case's facts go along in its
report's properties (``case-id``, ``profile``, ``kubernetes``), which JUnit files show, and which come back from the processes of
pytest-xdist.
"""

from __future__ import annotations

import datetime
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import Final

import pytest

from e2e import promises
from e2e.report import verdict_files
from e2e.report.pages import NOT_RUN
from e2e.report.sources import state
from e2e.report.verdict_table import Case, Column, Table, Verdict, counts

NAME: Final = "gpushare-verdicts"
# The release that the session's cluster reports, once it is up.
KUBERNETES: Final = pytest.StashKey[str]()
CASE_ID, PROFILE, RELEASE = "case-id", "profile", "kubernetes"
# Fixtures by which a case is on a cluster, and by which it is on both kinds of control plane.
_ON_ONE: Final = frozenset({"choices", "cluster"})
_ON_BOTH: Final = frozenset({"sides", "bare_sides", "sessions"})
_BOTH: Final = ("embedded", "controlplane")
_LONGEST_REASON: Final = 300


def add_options(group: pytest.OptionGroup) -> None:
    """Where the table goes."""
    group.addoption(
        "--verdicts",
        type=Path,
        default=Path("artefacts"),
        help="folder of verdicts.md and verdicts.json (default: artefacts)",
    )


class Verdicts:
    """One session; register it with pytest's plugin manager under ``NAME``. The cases are those that lie in ``cases``."""

    def __init__(self, config: pytest.Config, cases: Path) -> None:
        self._config = config
        self._folder_of_cases = cases
        self._folder = config.rootpath / config.getoption("--verdicts", default=Path("artefacts"))
        self._cluster: str = config.getoption("--cluster", default="embedded")
        self._target = Path(config.getoption("--target", default="gpushare")).stem
        self._releases: dict[str, str] = {}
        self._cases: dict[str, Case] = {}
        self._line = ""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """The facts of each case, into its properties."""
        for item in (item for item in items if self._folder_of_cases in item.path.parents):
            profiles = profiles_of(getattr(item, "fixturenames", ()), self._cluster)
            if profiles:
                ids = dict.fromkeys(str(one) for mark in item.iter_markers("promise") for one in mark.args)
                item.user_properties += [(PROFILE, name) for name in profiles]
                item.user_properties += [(CASE_ID, one) for one in ids]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """The cluster's release, as soon as it is known."""
        release = item.config.stash.get(KUBERNETES, None)
        named = dict(item.user_properties)
        if release and named.get(PROFILE) == self._cluster and RELEASE not in named:
            item.user_properties.append((RELEASE, release))
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One phase of a case: set-up, call or tear-down."""
        profiles = [str(value) for name, value in report.user_properties if name == PROFILE]
        verdict = verdict_of(report)
        if verdict is None or not profiles:
            return
        properties = dict(report.user_properties)
        if RELEASE in properties:
            self._releases[self._cluster] = str(properties[RELEASE])
        before = self._cases.get(report.nodeid)
        if before is not None and any(known.outcome != "passed" for known in before.verdicts.values()):
            return  # the first trouble is the verdict; what then goes wrong in the tear-down follows from it
        ids = tuple(str(value) for name, value in report.user_properties if name == CASE_ID)
        self._cases[report.nodeid] = Case(ids, dict.fromkeys(profiles, verdict))

    def pytest_sessionfinish(self) -> None:
        """Write the table, if this process is the one that reports and any case ran."""
        if hasattr(self._config, "workerinput") or not self._cases:
            return
        run = self._table()
        try:
            table = verdict_files.add(self._folder, run, _promises())
        except OSError as error:
            self._line = f"verdicts: {self._folder} cannot be written: {error}"
            return
        self._line = _line(run, table, self._folder / "verdicts.md")

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The counts, in one line."""
        if self._line:
            terminalreporter.write_line(self._line)

    def _table(self) -> Table:
        date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        minor = str(self._config.getoption("--kubernetes", default=""))
        clusters = dict.fromkeys(name for case in self._cases.values() for name in case.verdicts)
        # The option is for the real programs; the embedded cluster itself reports the release that it imitates.
        assumed = {name: "" if name == "embedded" else minor for name in clusters}
        columns = {name: Column(self._releases.get(name, assumed[name]), date) for name in clusters}
        return Table(state(self._config.rootpath), self._target, columns, self._cases)


def profiles_of(fixtures: Iterable[str], cluster: str) -> tuple[str, ...]:
    """The columns that a case with these fixtures speaks for."""
    used = frozenset(fixtures)
    if used & _ON_BOTH:
        return _BOTH
    return (cluster,) if used & _ON_ONE else ()


def verdict_of(report: pytest.TestReport) -> Verdict | None:
    """The outcome of one phase; None for one that was only the way to another. A failure outside of the call is an error."""
    if report.skipped:
        return Verdict("skipped", _skip_reason(report))
    if report.failed:
        return Verdict("failed" if report.when == "call" else "error", _first_line(report))
    return Verdict("passed") if report.when == "call" else None


def _skip_reason(report: pytest.TestReport) -> str:
    expected = getattr(report, "wasxfail", None)
    if expected is not None:
        return f"fails, as expected: {expected}"
    words = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
    return " ".join(words.removeprefix("Skipped: ").split())[:_LONGEST_REASON]


def _first_line(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = (crash.message if crash is not None else report.longreprtext).strip().splitlines() or ["no message"]
    return str(lines[0])[:_LONGEST_REASON]


def _promises() -> Mapping[str, tuple[str, tuple[str, ...]]]:
    return {row.id: (row.text, row.proved_by) for row in promises.load()}


def _line(run: Table, table: Table, page: Path) -> str:
    parts = []
    for name in run.columns:
        found = counts(run, name)
        words = ", ".join(f"{count} {word}" for word, count in found.items() if count and word != NOT_RUN)
        parts.append(f"{name} {run.columns[name].kubernetes}: {words}".replace("  ", " "))
    return f"verdicts at {table.commit}: {'; '.join(parts)}; table of {len(table.cases)} cases in {page}"
