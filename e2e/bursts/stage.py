"""A cluster for bursts: three nodes of equal cards whose kubelets do not keep the order of bindings."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from clusters.provider import load_nodes
from clusters.providers import Choices, make_cluster
from clusters.targets import Target
from clusters.waiting import eventually
from e2e.bursts.play import SETTLE_SECONDS, Player
from e2e.observer import Observer

NODES_FILE: Final = Path(__file__).parents[2] / "clusters" / "simulated" / "bursts.yaml"
NODES: Final = ("p", "q", "r")
_NAMESPACE: Final = "bursts"
# What waits for minutes in a cluster (the scheduler's back-off, a container's next attempt) shall not make a burst long.
_SPEED: Final = 10.0


@contextlib.asynccontextmanager
async def open_player(
    provider: str,
    target: Target,
    choices: Choices,
    plugin_arguments: Sequence[str] = (),
    *,
    settle_seconds: float = SETTLE_SECONDS,
) -> AsyncIterator[Player]:
    """The cluster is up while inside; ``plugin_arguments`` are for every device plugin."""
    nodes = [replace(node, plugin_arguments=tuple(plugin_arguments)) for node in load_nodes(NODES_FILE)]
    speed = _SPEED if provider == "embedded" else choices.speed
    cluster = make_cluster(provider, nodes, target, replace(choices, speed=speed))
    await cluster.start()
    try:
        await cluster.api.ensure_namespace(_NAMESPACE)
        observer = Observer(cluster, _NAMESPACE)
        await eventually(observer.accounts, lambda names: "default" in names, f"{_NAMESPACE} has its ServiceAccount")
        yield Player(observer, NODES, settle_seconds=settle_seconds)
        await observer.close()
    finally:
        await cluster.stop()
