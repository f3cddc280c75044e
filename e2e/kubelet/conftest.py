"""A kubelet for each case: a stand-in beside the cluster's nodes, or a real one on a worker of a cluster that has them."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio

from clusters.kubelet.timings import Timings
from clusters.local_cluster import LocalCluster
from clusters.processes.scratch import scratch_folder
from clusters.provider import Cluster
from e2e.kubelet.kubelet_stage import KubeletUnderTest, Stage
from e2e.kubelet.stand_in import StandIn
from e2e.kubelet.worker import Worker
from e2e.observer import Observer

# The node of the tried kubelet if kubelets are real: one for all cases, as the machine has few processors.
_WORKER: Final = "a1"
_NUMBERS = itertools.count(1)


@pytest.fixture
def timings() -> Timings:
    """A real kubelet's, a hundred times as fast; a case may say otherwise. A real kubelet has its own."""
    return Timings().scaled(0.01)


@pytest.fixture
def number() -> int:
    """A number that no other case has."""
    return next(_NUMBERS)


@pytest_asyncio.fixture(loop_scope="session")
async def kubelet_under_test(cluster: Cluster, timings: Timings, number: int) -> AsyncIterator[KubeletUnderTest]:
    """A kubelet of the cluster's kind."""
    if not isinstance(cluster, LocalCluster):
        yield Worker(cluster, _WORKER)
        return
    with scratch_folder() as folder:
        yield StandIn(cluster, f"kubelet-{number}", folder, timings)


@pytest_asyncio.fixture(loop_scope="session")
async def stage(kubelet_under_test: KubeletUnderTest, observer: Observer, number: int) -> AsyncIterator[Stage]:
    """The kubelet, a resource and a namespace of the case's own."""
    stage = Stage(kubelet_under_test, observer, f"case-{number}")
    await stage.open()
    try:
        yield stage
    finally:
        await stage.close()
