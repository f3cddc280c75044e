"""A cluster with device plugins that observe their nodes: their metrics for Prometheus, and their events on pods."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import httpx2
import yaml
from prometheus_client.parser import text_string_to_metric_families

from clusters.provider import load_nodes
from clusters.providers import Choices
from clusters.targets import Target
from e2e.observer import Observer, observing, own_cluster, trust

_CLUSTERS: Final = Path(__file__).parents[2] / "clusters"
_NODES: Final = _CLUSTERS / "simulated" / "usage.yaml"
_DELETE_ROLE: Final = _CLUSTERS / "deploy" / "components" / "delete-unadmitted" / "rbac.yaml"


class ObservedNamespace:
    """A case's namespace on it."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self._http = httpx2.AsyncClient(timeout=30, trust_env=False, verify=trust())

    async def close(self) -> None:
        """Ask no more."""
        await self._http.aclose()

    async def values(self, node: str, name: str, *labels: str) -> dict[tuple[str, ...], float]:
        """One series of a node's plugin, read as Prometheus does: these labels to value."""
        log = self.observer.cluster.log("device_plugin", node)
        port = re.findall(r"metrics at address=127\.0\.0\.1 port=(\d+)", log)[-1]
        text = (await self._http.get(f"http://127.0.0.1:{port}/metrics")).text
        samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
        return {tuple(one.labels[label] for label in labels): one.value for one in samples if one.name == name}


@contextlib.asynccontextmanager
async def open_observed(provider: str, target: Target, choices: Choices) -> AsyncIterator[ObservedNamespace]:
    """Node u1 looks at use and deletes stuck pods, node u2 does neither."""
    async with (
        own_cluster(provider, load_nodes(_NODES), target, choices) as cluster,
        observing(cluster, "observed") as observer,
    ):
        for manifest in yaml.safe_load_all(_DELETE_ROLE.read_text()):
            await cluster.api.create(manifest)
        observed = ObservedNamespace(observer)
        try:
            yield observed
        finally:
            await observed.close()
