"""The end of a run's output beside the verdicts: known differences, sums, notes of cases beyond passing.

All of it is made of properties of reports, and here: if pytest-xdist has other processes run the cases, the one that prints
never reads the conftest files beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from e2e.bursts.judge import Result, total
from e2e.parity import sides

# How long a node may take to show a fault, in seconds.
_PROMISED_SECONDS: Final = 2.0
# Under this name a parity case's report lists the rows of the table that it has shown.
SHOWN: Final = "difference"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Each part that the run has results for."""
    parts: tuple[Callable[[pytest.TerminalReporter], None], ...] = (
        _differences,
        _bursts,
        _faults,
        _texts,
    )
    for part in parts:
        part(terminalreporter)


def _differences(reporter: pytest.TerminalReporter) -> None:
    shown, rows = set(notes_about(reporter, SHOWN)), sides.load()
    if shown and rows:
        reporter.section(f"embedded and real differ in {len(rows)} known ways, {len(shown)} of them shown in this run")
        reporter.write_line(sides.report(rows))


def _bursts(reporter: pytest.TerminalReporter) -> None:
    results = [Result(**one) for one in notes_about(reporter, "burst")]
    if results:
        seed = results[0].seed.partition("/")[0]
        reporter.section(f"{len(results)} random bursts; again: --burst-seed {seed}")
        reporter.write_line(total(results))


def _faults(reporter: pytest.TerminalReporter) -> None:
    measured = notes_about(reporter, "fault")
    if measured:
        slow = sum(1 for seconds, _ in measured if seconds > _PROMISED_SECONDS)
        reporter.section(f"faults: {len(measured)} shown by the node, {slow} later than {_PROMISED_SECONDS:g} s")
        for seconds, what in measured:
            reporter.write_line(f"{seconds:6.2f} s  {what}")


def _texts(reporter: pytest.TerminalReporter) -> None:
    for about, title in (
        ("chaos", "two extenders and a scheduler, killed, paused and cut off"),
        ("migration", "from the original's programs to ours and back"),
    ):
        texts = notes_about(reporter, about)
        if texts:
            reporter.section(title)
            for text in texts:
                reporter.write_line(text)


def add_note(request: pytest.FixtureRequest, about: str, what: Any) -> None:
    """For the report of this case: a text, or plain data."""
    request.node.user_properties.append((about, what))


def notes_about(reporter: pytest.TerminalReporter, about: str) -> list[Any]:
    """All notes of this kind in the run."""
    return [
        what
        for report in reporter.getreports("passed") + reporter.getreports("failed")
        for name, what in report.user_properties
        if name == about and report.when == "call"
    ]
