"""The stand-in for the original's device plugin on one node: it registers as it does, and answers as it does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Final

import grpc
import grpc.aio

from clusters.api.resources import NODES, PODS
from clusters.clock import Clock
from clusters.kubelet.proto import deviceplugin_pb2 as pb
from clusters.provider import Cluster
from e2e import spec
from e2e.go_plugin.go_answers import assigned, candidate, ids_of, variables
from e2e.kubelet.sample_plugin import Context, SamplePlugin
from e2e.observer import Observer

_SOCKET: Final = "aliyungpushare.sock"
_LOOK_SECONDS: Final = 0.1


class GoPlugin(SamplePlugin):
    """It has no preference, never asks for the owner of ids, and repairs nothing."""

    def __init__(self, cluster: Cluster, node: str) -> None:
        cards = cluster.cards(node)
        self._units = cards[0]["memory"]["total_mib"] // spec.MIB_PER_UNIT
        super().__init__(dict.fromkeys(ids_of([card["uuid"] for card in cards], self._units), True))
        self._api = cluster.api
        self._node = node
        self._folder = cluster.kubelet_folder(node) / "device-plugins"
        self._count = str(len(cards))
        self._watch: asyncio.Task[None] | None = None

    async def plug_in(self) -> None:
        """Write the number of cards, register, and register again with each new kubelet."""
        amounts = {spec.RESOURCE_COUNT: self._count}
        status = {"status": {"capacity": amounts, "allocatable": amounts}}
        await self._api.patch(NODES, self._node, status, subresource="status")
        await self._register()
        self._watch = asyncio.create_task(self._follow_kubelet(), name=f"the original's plugin on {self._node}")

    async def unplug(self) -> None:
        """End it as a kill does: its socket stays behind."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait([self._watch])
        await self.stop()

    async def restart(self) -> None:
        """End it as a kill does, and start it again."""
        await self.unplug()
        await self.plug_in()

    async def _register(self) -> None:
        await self.start(self._folder, spec.RESOURCE_MEMORY, _SOCKET)

    async def _follow_kubelet(self) -> None:
        known = self._kubelet()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            seen = self._kubelet()
            if seen in (None, known):
                continue
            with contextlib.suppress(grpc.aio.AioRpcError):
                await self.stop()
                await self._register()
                known = seen

    def _kubelet(self) -> tuple[int, int] | None:
        """Which socket for registrations there is."""
        try:
            found = (self._folder / "kubelet.sock").stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_ctime_ns

    async def Allocate(self, request: pb.AllocateRequest, context: Context) -> pb.AllocateResponse:  # noqa: N802
        """By amount and age."""
        (one,) = request.container_requests
        units = len(one.devices_ids)
        selector = f"spec.nodeName={self._node},status.phase=Pending"
        pod = candidate(await self._api.list(PODS, field_selector=selector), units)
        if pod is not None:
            where = pod["metadata"]
            written = {"metadata": {"annotations": assigned(Clock().timestamp())}}
            await self._api.patch(PODS, where["name"], written, where["namespace"])
        answer = pb.AllocateResponse()
        answer.container_responses.add(envs=variables(pod, units, self._units))
        return answer


@contextlib.asynccontextmanager
async def in_the_place_of_ours(observer: Observer, *nodes: str) -> AsyncIterator[Mapping[str, GoPlugin]]:
    """The original's plugin is on these nodes while inside, and ours is not."""
    cluster = observer.cluster
    # A kubelet that has just restarted offers nothing until ours has registered again.
    offered = {node: await observer.offers_some(node) for node in nodes}
    plugins = {node: GoPlugin(cluster, node) for node in nodes}
    for node in nodes:
        await cluster.kill("device_plugin", node)
    try:
        for node, plugin in plugins.items():
            await plugin.plug_in()
            await observer.shows(node, str(len(plugin.devices)))
        yield plugins
    finally:
        for node, plugin in plugins.items():
            await plugin.unplug()
            # A real kubelet reports it seconds later; a launch before would take the old plugin's cards for the new one's.
            await observer.shows(node, "0")
        for node in nodes:
            await cluster.launch("device_plugin", node)
            await observer.shows(node, offered[node])
