"""What was seen under chaos is printed at the end."""

from __future__ import annotations

import pytest

from e2e.report import said


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What the case says of itself."""
    said.write(terminalreporter, "chaos", "two extenders and a scheduler, killed, paused and cut off")
