"""What was seen under restarts is printed at the end."""

from __future__ import annotations

import pytest

from e2e.report import said


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What the cases of churn say of themselves."""
    said.write(terminalreporter, "churn", "restarts under churn")
