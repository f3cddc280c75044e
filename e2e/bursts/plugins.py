"""The device plugins that a burst meets: those of the cluster, or some that guess by amount and age, as the original does."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Final, Protocol

from clusters.api.readiness import announces_cards
from clusters.api.waiting import eventually
from clusters.clock import Clock
from clusters.provider import Cluster
from e2e import spec
from e2e.go_plugin.go_plugin import GoPlugin

_PROGRAM: Final = "device_plugin"


class Plugins(Protocol):
    """The device plugin of each node."""

    async def restart(self, node: str) -> None:
        """Kill a node's, and start it again."""


class ClusterPlugins:
    """Those under test."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def restart(self, node: str) -> None:
        """See the seam."""
        await self._cluster.kill(_PROGRAM, node)
        await self._cluster.launch(_PROGRAM, node)


class GuessingPlugins:
    """The original's way on every node: it has no preference, never asks for the owner of ids, and repairs nothing."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._plugins: dict[str, GoPlugin] = {}

    @contextlib.asynccontextmanager
    async def in_place(self, nodes: Sequence[str]) -> AsyncIterator[None]:
        """They are on these nodes while inside, and those under test are not."""
        for node in nodes:
            await self._cluster.kill(_PROGRAM, node)
        try:
            for node in nodes:
                folder = self._cluster.kubelet_folder(node) / "device-plugins"
                cards = self._cluster.cards(node)
                self._plugins[node] = GoPlugin(self._cluster.api, node, folder, cards, Clock().timestamp)
                await self._start(node)
            yield
        finally:
            for plugin in self._plugins.values():
                await plugin.stop()
            for node in nodes:
                # A real kubelet reports it seconds later; a launch before would take the old plugin's cards for the new one's.
                await self._shows_cards(node, shown=False)
            for node in nodes:
                await self._cluster.launch(_PROGRAM, node)

    async def restart(self, node: str) -> None:
        """See the seam."""
        await self._plugins[node].stop()
        await self._start(node)

    async def _start(self, node: str) -> None:
        await self._plugins[node].start()
        await self._shows_cards(node, shown=True)

    async def _shows_cards(self, node: str, *, shown: bool) -> None:
        await eventually(
            lambda: announces_cards(self._cluster.api, node, spec.RESOURCE_MEMORY),
            lambda seen: seen is shown,
            f"{node} shows {'its' if shown else 'no'} cards",
        )
