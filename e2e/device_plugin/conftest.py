"""A plugin and its kubelet for each case; the table of promises at the end of a run."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from clusters.processes.scratch import scratch_folder
from clusters.providers import Choices
from clusters.targets import Target
from e2e.device_plugin.plugin_under_test import PluginUnderTest
from e2e.observer import Observer

_HERE = Path(__file__).parent
_NUMBERS = itertools.count(1)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where kubelets are real these cases have nothing to say of them."""
    mark = pytest.mark.stand_in_only("the kubelet of this case is one that records what it is told")
    for item in items:
        if item.path.is_relative_to(_HERE) and "stage" in getattr(item, "fixturenames", ()):
            item.add_marker(mark)


@pytest_asyncio.fixture(loop_scope="session")
async def stage(observer: Observer, target: Target, choices: Choices) -> AsyncIterator[PluginUnderTest]:
    """A node of the case's own, in the case's namespace; the case opens it with the cards that it wants."""
    with scratch_folder() as folder:
        node = f"plugin-{next(_NUMBERS)}"
        (folder / node).mkdir()
        stage = PluginUnderTest(observer, target, choices.environment, node, folder / node)
        try:
            yield stage
        finally:
            await stage.close()
