"""What cases say of themselves beyond passing, printed when the run ends: by their reports, as other processes run them."""

from __future__ import annotations

import pytest


def say(request: pytest.FixtureRequest, about: str, text: str) -> None:
    """For the report of this case."""
    request.node.user_properties.append((about, text))


def write(reporter: pytest.TerminalReporter, about: str, title: str) -> None:
    """All that was said about this, under a title; nothing where nothing was."""
    texts = [
        str(text)
        for report in reporter.getreports("passed") + reporter.getreports("failed")
        for name, text in report.user_properties
        if name == about and report.when == "call"
    ]
    if texts:
        reporter.section(title)
        for text in texts:
            reporter.write_line(text)
