"""What was seen under restarts is printed at the end."""

from __future__ import annotations

import pytest


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
