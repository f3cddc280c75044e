"""A real, small device plugin for the tests: serves on a socket, registers, records what it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import grpc
import grpc.aio

from clusters.kubelet.proto import deviceplugin_pb2 as pb
from clusters.kubelet.proto import deviceplugin_pb2_grpc as pb_grpc

RESOURCE = "example.com/slice"


class Plugin(pb_grpc.DevicePluginServicer):
    """Announces ``devices`` (id → healthy); its attributes say how it answers, ``calls`` what it was asked."""

    def __init__(self, devices: dict[str, bool], *, prefers: bool = False, pre_start: bool = False) -> None:
        self.devices = devices
        self.options = pb.DevicePluginOptions(pre_start_required=pre_start, get_preferred_allocation_available=prefers)
        self.calls: list[tuple[str, tuple[str, ...]]] = []
        self.prefer = lambda available, must, size: sorted(available)[:size]
        self.prefer_error = ""
        self.allocate_error = ""
        self.pre_start_error = ""
        self.options_error = ""
        self.list_error = ""
        self.envs = lambda ids: {"NVIDIA_VISIBLE_DEVICES": "0", "IDS": ",".join(ids)}
        self.on_allocate = lambda: None
        self.allocate_gate: asyncio.Event | None = None
        self.options_gate: asyncio.Event | None = None
        self._changed = asyncio.Event()
        self._ended = asyncio.Event()
        self._server: grpc.aio.Server | None = None

    async def serve(self, socket: Path) -> None:
        socket.unlink(missing_ok=True)
        self._ended.clear()
        self._server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0)])
        pb_grpc.add_DevicePluginServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix:{socket}")
        await self._server.start()

    async def stop(self) -> None:
        self.end_stream()
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    def end_stream(self) -> None:
        self._ended.set()
        self._changed.set()

    def announce(self, devices: dict[str, bool]) -> None:
        self.devices = devices
        self._changed.set()

    def asked(self, verb: str) -> list[tuple[str, ...]]:
        return [ids for name, ids in self.calls if name == verb]

    async def GetDevicePluginOptions(self, request, context) -> pb.DevicePluginOptions:  # noqa: N802
        self.calls.append(("options", ()))
        if self.options_gate is not None:
            await self.options_gate.wait()
        if self.options_error:
            await context.abort(grpc.StatusCode.INTERNAL, self.options_error)
        return self.options

    async def ListAndWatch(self, request, context) -> AsyncIterator[pb.ListAndWatchResponse]:  # noqa: N802
        self.calls.append(("list", ()))
        if self.list_error:
            await context.abort(grpc.StatusCode.INTERNAL, self.list_error)
        while not self._ended.is_set():
            self._changed.clear()
            yield pb.ListAndWatchResponse(
                devices=[pb.Device(ID=i, health="Healthy" if ok else "Unhealthy") for i, ok in self.devices.items()]
            )
            await self._changed.wait()

    async def GetPreferredAllocation(self, request, context) -> pb.PreferredAllocationResponse:  # noqa: N802
        one = request.container_requests[0]
        self.calls.append(("prefer", (*one.must_include_deviceIDs, f"size={one.allocation_size}")))
        if self.prefer_error:
            await context.abort(grpc.StatusCode.INTERNAL, self.prefer_error)
        ids = self.prefer(one.available_deviceIDs, one.must_include_deviceIDs, one.allocation_size)
        answer = pb.PreferredAllocationResponse()
        answer.container_responses.add(deviceIDs=ids)
        return answer

    async def Allocate(self, request, context) -> pb.AllocateResponse:  # noqa: N802
        assert len(request.container_requests) == 1
        ids = tuple(request.container_requests[0].devices_ids)
        self.calls.append(("allocate", ids))
        if self.allocate_error:
            await context.abort(grpc.StatusCode.INTERNAL, self.allocate_error)
        self.on_allocate()
        if self.allocate_gate is not None:
            await self.allocate_gate.wait()
        answer = pb.AllocateResponse()
        answer.container_responses.add(envs=self.envs(ids))
        return answer

    async def PreStartContainer(self, request, context) -> pb.PreStartContainerResponse:  # noqa: N802
        self.calls.append(("pre_start", tuple(request.devices_ids)))
        if self.pre_start_error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, self.pre_start_error)
        return pb.PreStartContainerResponse()


async def register(folder: Path, endpoint: str, *, resource: str = RESOURCE, version: str = "v1beta1") -> None:
    """Register as any plugin does. Raises grpc.aio.AioRpcError when the kubelet refuses."""
    async with grpc.aio.insecure_channel(f"unix:{folder / 'kubelet.sock'}") as channel:
        request = pb.RegisterRequest(version=version, endpoint=endpoint, resource_name=resource)
        await pb_grpc.RegistrationStub(channel).Register(request, timeout=300)


def ids(names: Iterable[object]) -> dict[str, bool]:
    """Healthy devices of these names."""
    return {str(name): True for name in names}
