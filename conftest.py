"""For all tests: which to skip, and less work for Python's garbage collector, which took a tenth of a worker's processor time."""

from __future__ import annotations

import gc
from typing import Final

import pytest

# The marks of tests that each option skips.
_SKIPPED: Final = {"--quick": ("thorough", "exhaustive"), "--not-exhaustive": ("exhaustive",)}
# An assertion of what cases share shows both sides and their difference, too.
pytest.register_assert_rewrite("e2e")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--quick`` and ``--not-exhaustive``."""
    for option, marks in _SKIPPED.items():
        parser.addoption(option, action="store_true", help=f"skip tests marked as {' or '.join(marks)}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip, with the reason, tests that take long and repeat most of what others prove."""
    for option in filter(config.getoption, _SKIPPED):
        for item in items:
            for mark in filter(None, map(item.get_closest_marker, _SKIPPED[option])):
                item.add_marker(pytest.mark.skip(f"not with {option}: {mark.args[0]}"))


def pytest_collection_finish() -> None:
    """Thousands of tests and their modules stay to the end, so the garbage collector need not walk them again."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
