"""The gRPC edge: the device plugin service, in the API's own order. Each verb is short and delegates.

Our errors become a gRPC status in one place (``_abort``); their text is what the pod's status or event shows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Final, NoReturn, TypeVar

import grpc
import grpc.aio

from gpushare.deviceplugin.allocate import Allocator
from gpushare.deviceplugin.devices import device_list
from gpushare.deviceplugin.node_status import NodeStatus
from gpushare.deviceplugin.proto import deviceplugin_pb2 as pb
from gpushare.deviceplugin.proto import deviceplugin_pb2_grpc as pb_grpc
from gpushare.errors import GpushareError

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")

# The kubelet sends every free id with GetPreferredAllocation; -1 takes any size.
_SERVER_OPTIONS: Final = [("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0)]
# How long calls under way may take when we stop, in seconds.
_GRACE_SECONDS: Final = 1.0

Context = grpc.aio.ServicerContext[object, object]


def plugin_options() -> pb.DevicePluginOptions:
    """What we want of the kubelet: to be asked which ids, and before each container start."""
    return pb.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)


class DevicePluginServer(pb_grpc.DevicePluginServicer):
    """The service on our socket."""

    def __init__(self, allocator: Allocator, node: NodeStatus) -> None:
        self._allocator = allocator
        self._node = node
        self._streams = 0
        self._stopping = asyncio.Event()
        self._server: grpc.aio.Server | None = None

    async def start(self, socket: Path) -> None:
        """Serve on ``socket``; a stale file of that name is replaced. The folder decides who may connect."""
        socket.unlink(missing_ok=True)
        self._stopping.clear()
        self._server = grpc.aio.server(options=_SERVER_OPTIONS)
        pb_grpc.add_DevicePluginServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix:{socket}")
        await self._server.start()

    async def stop(self) -> None:
        """End the streams: a kubelet drops whoever is registered when an old stream ends after a new registration."""
        self._stopping.set()
        if self._server is not None:
            await self._server.stop(_GRACE_SECONDS)
            self._server = None

    @property
    def is_watched(self) -> bool:
        """Does a kubelet hold our list?"""
        return self._streams > 0

    async def GetDevicePluginOptions(self, request: pb.Empty, context: Context) -> pb.DevicePluginOptions:  # noqa: N802
        """The kubelet asks this while our Register call is pending."""
        return plugin_options()

    async def ListAndWatch(self, request: pb.Empty, context: Context) -> AsyncIterator[pb.ListAndWatchResponse]:  # noqa: N802
        """The full list at once; the stream stays open until we stop."""
        cards = self._node.cards.cards
        devices = [pb.Device(ID=device_id, health=health) for device_id, health in device_list(cards)]
        _LOG.info("announced cards=%d ids=%d", len(cards), len(devices))
        self._streams += 1
        try:
            yield pb.ListAndWatchResponse(devices=devices)
            await self._stopping.wait()
        finally:
            self._streams -= 1

    async def GetPreferredAllocation(  # noqa: N802
        self, request: pb.PreferredAllocationRequest, context: Context
    ) -> pb.PreferredAllocationResponse:
        """Ids on the card of the pod whose turn it is."""
        answer = pb.PreferredAllocationResponse()
        for one in request.container_requests:
            chosen = await _answered(
                self._allocator.prefer(one.available_deviceIDs, one.must_include_deviceIDs, one.allocation_size),
                context,
            )
            answer.container_responses.add(deviceIDs=chosen)
        return answer

    async def Allocate(self, request: pb.AllocateRequest, context: Context) -> pb.AllocateResponse:  # noqa: N802
        """The variables of each container."""
        answer = pb.AllocateResponse()
        for one in request.container_requests:
            variables = await _answered(self._allocator.allocate(one.devices_ids), context)
            answer.container_responses.add(envs=variables)
        return answer

    async def PreStartContainer(  # noqa: N802
        self, request: pb.PreStartContainerRequest, context: Context
    ) -> pb.PreStartContainerResponse:
        """May the container with these ids start?"""
        await _answered(self._allocator.verify(request.devices_ids), context)
        return pb.PreStartContainerResponse()


async def _answered(work: Awaitable[_T], context: Context) -> _T:
    """The result, or our error as a status."""
    try:
        return await work
    except GpushareError as error:
        _LOG.warning("refused reason=%s", error)
        await _abort(context, error)


async def _abort(context: Context, error: GpushareError) -> NoReturn:
    await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
    raise AssertionError("abort raises") from error
