"""The notes of cases arrive if other processes run them."""

from __future__ import annotations

from pathlib import Path

_CASES = Path(__file__).parents[1]


def test_nothing_is_printed_from_beside_the_cases() -> None:
    """The process that prints reads ``e2e/conftest.py`` alone when pytest-xdist's run the cases; tables elsewhere were lost."""
    beside = [path for path in _CASES.glob("*/**/conftest.py") if "pytest_terminal_summary" in path.read_text()]

    assert beside == []
