"""A plugin of pytest for ``make mutants``: each test begins with empty caches.

A function that a cache hides from all tests but the first would have no other tests, and its mutants would survive.
"""

from __future__ import annotations

import functools
import gc

import pytest

_CACHES: list[functools._lru_cache_wrapper[object]] = []


def pytest_collection_finish() -> None:
    """The caches of all modules that were imported."""
    _CACHES[:] = [each for each in gc.get_objects() if isinstance(each, functools._lru_cache_wrapper)]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Empty them."""
    for cache in _CACHES:
        cache.cache_clear()
