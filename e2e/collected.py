"""The results of a run are kept to its end, so the garbage collector need not walk through all of them again and again."""

from __future__ import annotations

import gc

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Thousands of tests and their modules: a twentieth of the time of all tests."""
    gc.collect()
    gc.freeze()
