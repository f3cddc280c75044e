"""The notes of cases beyond passing: in their reports' properties, as other processes may run them."""

from __future__ import annotations

from typing import Any

import pytest


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
