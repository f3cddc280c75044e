"""How many restarts a run shall see; what was seen under them is printed at the end."""

from __future__ import annotations

import pytest

_FEW = 3


def pytest_addoption(parser: pytest.Parser) -> None:
    """More for a long run."""
    group = parser.getgroup("restarts", "restarts under churn")
    group.addoption(
        "--restarts", type=int, default=_FEW, help="restarts of each kind under churn (default: %(default)s)"
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What the cases of churn say of themselves."""
    texts = [
        str(text)
        for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
        for name, text in report.user_properties
        if name == "churn" and report.when == "call"
    ]
    if texts:
        terminalreporter.section("restarts under churn")
        for text in texts:
            terminalreporter.write_line(text)
