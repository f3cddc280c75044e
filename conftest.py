"""For all tests: ``--quick``, and less work for Python's garbage collector, which took a tenth of a worker's processor time."""

from __future__ import annotations

import gc

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--quick``."""
    parser.addoption("--quick", action="store_true", help="skip what is marked as thorough (make test does)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip, with the reason, tests that take long and repeat most of what others prove."""
    if config.getoption("--quick"):
        for item in items:
            if (mark := item.get_closest_marker("thorough")) is not None:
                item.add_marker(pytest.mark.skip(f"not with --quick: {mark.args[0]}"))


def pytest_collection_finish() -> None:
    """Thousands of tests and their modules stay to the end, so the garbage collector need not walk them again."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
