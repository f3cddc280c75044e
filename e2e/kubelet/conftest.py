"""A kubelet for each case: a stand-in beside the cluster's nodes, or a real one on a worker of a cluster that has them."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio

from clusters.kubelet.machine import Timings
from clusters.local_cluster import LocalCluster
from clusters.processes.scratch import scratch_folder
from clusters.provider import Cluster
from e2e.kubelet.node_under_test import NodeUnderTest, StandIn, Worker
from e2e.observer import Observer

# The node of the tried kubelet if kubelets are real: one for all cases, as the machine has few processors.
_WORKER: Final = "a1"
_NUMBERS = itertools.count(1)


@pytest.fixture
def timings() -> Timings:
    """A real kubelet's, a hundred times as fast; a case may say otherwise. A real kubelet has its own."""
    return Timings().scaled(0.01)


@pytest_asyncio.fixture(loop_scope="session")
async def stage(cluster: Cluster, observer: Observer, timings: Timings) -> AsyncIterator[NodeUnderTest]:
    """A kubelet of the cluster's kind, with a resource and a namespace of the case's own."""
    number = next(_NUMBERS)
    with scratch_folder() as folder:
        stage = NodeUnderTest(
            StandIn(cluster, f"kubelet-{number}", folder, timings)
            if isinstance(cluster, LocalCluster)
            else Worker(cluster, _WORKER),
            observer,
            f"case-{number}",
        )
        await stage.open()
        try:
            yield stage
        finally:
            await stage.close()
