"""A cluster for each module of faults; each case finds and leaves it healthy."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from clusters.provider import Cluster, load_nodes
from e2e.faults.node_under_faults import NodeUnderFaults
from e2e.observer import OwnCluster, observing
from e2e.report.case_notes import add_note

_NODES: Final = Path(__file__).parents[2] / "clusters" / "simulated" / "faults.yaml"
_HERE: Final = Path(__file__).parent
_NUMBERS = itertools.count(1)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A cluster for each module is much to ask for on real nodes; e2e/scenarios/test_unhealthy_card.py is one case for all."""
    mark = pytest.mark.minutes_on_kind(5, "a cluster of its own, with a node of four cards")
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(mark)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def fault_cluster(own: OwnCluster) -> AsyncIterator[Cluster]:
    """Two nodes."""
    async with own(load_nodes(_NODES)) as cluster:
        yield cluster


@pytest_asyncio.fixture(loop_scope="session")
async def faults(request: pytest.FixtureRequest, fault_cluster: Cluster) -> AsyncIterator[NodeUnderFaults]:
    """A namespace of the case's own; the cards are healthy before and after."""
    async with observing(fault_cluster, f"faults-{next(_NUMBERS)}") as observer:
        stage = NodeUnderFaults(observer, lambda what, seconds: add_note(request, "fault", [seconds, what]))
        await stage.heal()
        try:
            yield stage
        finally:
            await stage.heal()
