"""A node for each case, beside those of the cluster."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from clusters.kubelet.timings import Timings
from clusters.local_cluster import LocalCluster
from clusters.provider import Cluster
from clusters.scratch import scratch_folder
from e2e.kubelet.stage import Stage
from e2e.observer import Observer

_NUMBERS = itertools.count(1)


@pytest.fixture
def timings() -> Timings:
    """A real kubelet's, a hundred times as fast; a case may say otherwise."""
    return Timings().scaled(0.01)


@pytest_asyncio.fixture(loop_scope="session")
async def stage(cluster: Cluster, observer: Observer, timings: Timings) -> AsyncIterator[Stage]:
    """A node of the case's own, in the case's namespace."""
    if not isinstance(cluster, LocalCluster):
        pytest.skip("the kubelets of this cluster are not ours")
    with scratch_folder() as folder:
        stage = Stage(cluster, observer.namespace, f"kubelet-{next(_NUMBERS)}", folder, timings)
        await stage.open()
        try:
            yield stage
        finally:
            await stage.close()
