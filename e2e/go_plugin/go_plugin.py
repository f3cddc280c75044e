"""The stand-in for the original's device plugin on one node: it registers as it does, and answers as it does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from clusters.api.api_client import ApiClient
from clusters.api.resources import NODES, PODS
from clusters.clock import Clock
from clusters.kubelet.proto import deviceplugin_pb2 as pb
from clusters.kubelet.proto import deviceplugin_pb2_grpc as pb_grpc
from e2e import spec
from e2e.go_plugin.go_answers import assigned, candidate, ids_of, variables
from e2e.observer import Observer

_SOCKET: Final = "aliyungpushare.sock"
_LOOK_SECONDS: Final = 0.1
_MIB_PER_UNIT: Final = 1024

Context = grpc.aio.ServicerContext[object, object]


class GoPlugin(pb_grpc.DevicePluginServicer):
    """``cards`` as ``Cluster.cards`` has them; ``folder`` is the kubelet's for plugins; ``clock`` gives Unix seconds."""

    def __init__(
        self,
        api: ApiClient,
        node: str,
        folder: Path,
        cards: Sequence[Mapping[str, Any]],
        clock: Callable[[], float],
    ) -> None:
        self._api = api
        self._node = node
        self._folder = folder
        self._clock = clock
        self._units = cards[0]["memory"]["total_mib"] // _MIB_PER_UNIT
        self._count = str(len(cards))
        self._ids = ids_of([card["uuid"] for card in cards], self._units)
        self._ended = asyncio.Event()
        self._server: grpc.aio.Server | None = None
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Write the number of cards, register, and register again with each new kubelet."""
        amounts = {spec.RESOURCE_COUNT: self._count}
        status = {"status": {"capacity": amounts, "allocatable": amounts}}
        await self._api.patch(NODES, self._node, status, subresource="status")
        await self._register()
        self._watch = asyncio.create_task(self._follow_kubelet(), name=f"the original's plugin on {self._node}")

    async def stop(self) -> None:
        """As killed: its socket stays behind."""
        if self._watch is not None:
            self._watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch
            self._watch = None
        await self._end_server()

    async def _register(self) -> None:
        self._ended.clear()
        socket = self._folder / _SOCKET
        socket.unlink(missing_ok=True)
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        pb_grpc.add_DevicePluginServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix:{socket}")
        await self._server.start()
        async with grpc.aio.insecure_channel(f"unix:{self._folder / 'kubelet.sock'}") as channel:
            request = pb.RegisterRequest(version="v1beta1", endpoint=_SOCKET, resource_name=spec.RESOURCE_MEMORY)
            await pb_grpc.RegistrationStub(channel).Register(request, timeout=20)

    async def _end_server(self) -> None:
        self._ended.set()
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    async def _follow_kubelet(self) -> None:
        known = self._kubelet()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            seen = self._kubelet()
            if seen in (None, known):
                continue
            try:
                await self._end_server()
                await self._register()
                known = seen
            except grpc.aio.AioRpcError:
                continue

    def _kubelet(self) -> tuple[int, int] | None:
        """Which socket for registrations there is."""
        try:
            found = (self._folder / "kubelet.sock").stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_ctime_ns

    async def GetDevicePluginOptions(  # noqa: N802  # gRPC's name
        self, request: pb.Empty, context: Context
    ) -> pb.DevicePluginOptions:
        """It wants to be asked nothing else."""
        return pb.DevicePluginOptions()

    async def ListAndWatch(  # noqa: N802
        self, request: pb.Empty, context: Context
    ) -> AsyncIterator[pb.ListAndWatchResponse]:
        """One list."""
        yield pb.ListAndWatchResponse(devices=[pb.Device(ID=one, health="Healthy") for one in self._ids])
        await self._ended.wait()

    async def Allocate(self, request: pb.AllocateRequest, context: Context) -> pb.AllocateResponse:  # noqa: N802
        """By amount and age."""
        (one,) = request.container_requests
        units = len(one.devices_ids)
        selector = f"spec.nodeName={self._node},status.phase=Pending"
        pod = candidate(await self._api.list(PODS, field_selector=selector), units)
        if pod is not None:
            where = pod["metadata"]
            written = {"metadata": {"annotations": assigned(self._clock())}}
            await self._api.patch(PODS, where["name"], written, where["namespace"])
        answer = pb.AllocateResponse()
        answer.container_responses.add(envs=variables(pod, units, self._units))
        return answer

    async def PreStartContainer(  # noqa: N802
        self, request: pb.PreStartContainerRequest, context: Context
    ) -> pb.PreStartContainerResponse:
        """It is not asked."""
        return pb.PreStartContainerResponse()


@contextlib.asynccontextmanager
async def in_the_place_of_ours(observer: Observer, node: str) -> AsyncIterator[None]:
    """The original's plugin is on a simulated node while inside, and ours is not."""
    cluster = observer.cluster
    offered = str((await cluster.api.get(NODES, node))["status"]["capacity"][spec.RESOURCE_MEMORY])
    await cluster.kill("device_plugin", node)
    folder = cluster.kubelet_folder(node) / "device-plugins"
    plugin = GoPlugin(cluster.api, node, folder, cluster.cards(node), Clock().timestamp)
    try:
        await plugin.start()
        await observer.shows(node, offered)
        yield
    finally:
        await plugin.stop()
        await observer.shows(node, "0")
        await cluster.launch("device_plugin", node)
        await observer.shows(node, offered)
