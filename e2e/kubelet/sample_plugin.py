"""A device plugin that does what a case wants: it serves on a socket, registers, and remembers what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from pathlib import Path

import grpc
import grpc.aio

from clusters.kubelet.proto import deviceplugin_pb2 as pb
from clusters.kubelet.proto import podresources_pb2 as pr
from clusters.kubelet.proto.grpc_services import DEVICE_PLUGIN, POD_RESOURCES, REGISTRATION, serve, stub_of

Context = grpc.aio.ServicerContext[object, object]


class SamplePlugin:
    """Announces ``devices`` (id → healthy). A text in ``refusals`` (by verb) is the error with which it answers.

    ``prefers`` chooses ids from (free ids, those that have to be among them, how many): then it wants to be asked for a
    preference. ``at_start`` is awaited with the ids inside each PreStartContainer that it agrees to. ``cdi_device`` is the name
    of a CDI device that comes with each answer.
    """

    def __init__(
        self,
        devices: Mapping[str, bool],
        *,
        pre_start: bool = False,
        prefers: Callable[[list[str], list[str], int], list[str]] | None = None,
        at_start: Callable[[tuple[str, ...]], Awaitable[None]] | None = None,
        cdi_device: str = "",
    ) -> None:
        self.devices = dict(devices)
        self.refusals: dict[str, str] = {}
        self.calls: list[tuple[str, tuple[str, ...]]] = []
        self.socket = Path()
        self._prefers = prefers
        self._at_start = at_start
        self._cdi_devices = [pb.CDIDevice(name=cdi_device)] if cdi_device else []
        self._options = pb.DevicePluginOptions(
            pre_start_required=pre_start or at_start is not None, get_preferred_allocation_available=prefers is not None
        )
        self._changed = asyncio.Event()
        self._ended = asyncio.Event()
        self._server: grpc.aio.Server | None = None

    async def start(self, folder: Path, resource: str, socket_name: str) -> None:
        """Serve on a socket in the folder, then register. Raises grpc.aio.AioRpcError if the kubelet refuses."""
        self._ended.clear()
        self.socket = folder / socket_name
        self.socket.unlink(missing_ok=True)
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        serve(self._server, DEVICE_PLUGIN, self)
        self._server.add_insecure_port(f"unix:{self.socket}")
        await self._server.start()
        async with grpc.aio.insecure_channel(f"unix:{folder / 'kubelet.sock'}") as channel:
            request = pb.RegisterRequest(version="v1beta1", endpoint=self.socket.name, resource_name=resource)
            await stub_of(channel, REGISTRATION).Register(request, timeout=20)

    async def stop(self) -> None:
        self.end_list()
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    def end_list(self) -> None:
        self._ended.set()
        self._changed.set()

    def announce(self, devices: Mapping[str, bool]) -> None:
        self.devices = dict(devices)
        self._changed.set()

    def asked(self, verb: str) -> list[tuple[str, ...]]:
        """The ids of each call of a verb."""
        return [ids for name, ids in self.calls if name == verb]

    async def _take(self, verb: str, ids: Iterable[str], context: Context) -> None:
        self.calls.append((verb, tuple(ids)))
        if verb in self.refusals:
            await context.abort(grpc.StatusCode.INTERNAL, self.refusals[verb])

    async def GetDevicePluginOptions(  # noqa: N802  # gRPC's name
        self, request: pb.Empty, context: Context
    ) -> pb.DevicePluginOptions:
        await self._take("GetDevicePluginOptions", (), context)
        return self._options

    async def ListAndWatch(  # noqa: N802
        self, request: pb.Empty, context: Context
    ) -> AsyncIterator[pb.ListAndWatchResponse]:
        """The full list, now and after each change."""
        await self._take("ListAndWatch", (), context)
        while not self._ended.is_set():
            self._changed.clear()
            healths = {True: "Healthy", False: "Unhealthy"}
            yield pb.ListAndWatchResponse(
                devices=[pb.Device(ID=name, health=healths[ok]) for name, ok in self.devices.items()]
            )
            await self._changed.wait()

    async def GetPreferredAllocation(  # noqa: N802
        self, request: pb.PreferredAllocationRequest, context: Context
    ) -> pb.PreferredAllocationResponse:
        """The ids that ``prefers`` chooses; remembered are those that it may choose from."""
        (one,) = request.container_requests
        await self._take("GetPreferredAllocation", one.available_deviceIDs, context)
        assert self._prefers is not None
        chosen = self._prefers(list(one.available_deviceIDs), list(one.must_include_deviceIDs), one.allocation_size)
        answer = pb.PreferredAllocationResponse()
        answer.container_responses.add(deviceIDs=chosen)
        return answer

    async def Allocate(self, request: pb.AllocateRequest, context: Context) -> pb.AllocateResponse:  # noqa: N802
        """The ids go into the container's variable IDS."""
        (one,) = request.container_requests
        await self._take("Allocate", one.devices_ids, context)
        answer = pb.AllocateResponse()
        answer.container_responses.add(envs={"IDS": ",".join(sorted(one.devices_ids))}, cdi_devices=self._cdi_devices)
        return answer

    async def PreStartContainer(  # noqa: N802
        self, request: pb.PreStartContainerRequest, context: Context
    ) -> pb.PreStartContainerResponse:
        await self._take("PreStartContainer", request.devices_ids, context)
        if self._at_start is not None:
            await self._at_start(tuple(request.devices_ids))
        return pb.PreStartContainerResponse()


async def pods_listed(socket: Path) -> list[pr.PodResources]:
    """The pods that the kubelet's PodResources lists. Raises grpc.aio.AioRpcError."""
    async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        answer = await stub_of(channel, POD_RESOURCES).List(pr.ListPodResourcesRequest())
    return list(answer.pod_resources)


def healthy(count: int) -> dict[str, bool]:
    return {f"dev-{number}": True for number in range(count)}
