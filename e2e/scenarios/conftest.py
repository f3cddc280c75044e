"""A cluster with device plugins that observe their nodes: their metrics for Prometheus, and their events on pods."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest_asyncio
import yaml

from clusters.provider import load_nodes
from clusters.targets import Target
from e2e import spec
from e2e.metrics import port_in, samples_in
from e2e.observer import Observer, OwnCluster, observing

_CLUSTERS: Final = Path(__file__).parents[2] / "clusters"
_NODES: Final = _CLUSTERS / "simulated" / "usage.yaml"
_COMPONENTS: Final = _CLUSTERS / "deploy" / "components"
_ROLES: Final = [_COMPONENTS / name / "rbac.yaml" for name in ("delete-unadmitted", "evict-overusers")]


class ObservedNamespace:
    """A case's namespace on it; ``gib`` is how many units a GiB has."""

    def __init__(self, observer: Observer, gib: int) -> None:
        self.observer = observer
        self.gib = gib

    async def values(self, node: str, name: str, *labels: str) -> dict[tuple[str, ...], float]:
        """One series of a node's plugin, read as Prometheus does: these labels to value."""
        log = self.observer.cluster.log("device_plugin", node)
        port = port_in(log)
        samples = samples_in((await self.observer.get(f"http://127.0.0.1:{port}/metrics")).text, name)
        return {tuple(one.labels[label] for label in labels): one.value for one in samples}


@pytest_asyncio.fixture(loop_scope="session")
async def observed(own: OwnCluster, target: Target) -> AsyncIterator[ObservedNamespace]:
    """A cluster of the case's own: u1 looks at use and deletes stuck pods, u3 evicts pods that use too much, u2 does neither."""
    async with own(load_nodes(_NODES)) as cluster, observing(cluster, "observed") as observer:
        for role in _ROLES:
            for manifest in yaml.safe_load_all(role.read_text()):
                await cluster.api.create(manifest)
        yield ObservedNamespace(observer, 1024 if target.device_plugin.resource == spec.RESOURCE_SLOT else 1)
