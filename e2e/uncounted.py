"""Tests marked ``no_cover`` count no lines in their fixtures either.

pytest-cov's own marker is about a test's call alone. The clusters and programs of end-to-end cases come up in fixtures: to count
there took a tenth of their time.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Before the test, and in the same way after it."""
    plugin = item.config.pluginmanager.get_plugin("_cov")
    counter = getattr(plugin, "cov_controller", None) if item.get_closest_marker("no_cover") else None
    if counter is None or not counter.started:
        return (yield)
    counter.pause()
    try:
        return (yield)
    finally:
        counter.resume()


pytest_runtest_teardown = pytest_runtest_setup
