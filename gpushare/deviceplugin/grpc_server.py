"""The gRPC edge: the device plugin service, in the API's own order, and its registration. Each verb is short and delegates.

Our errors become a gRPC status in one place (``_answered``); their text is what the pod's status or event shows.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Sequence, Set
from pathlib import Path
from typing import Final, TypeVar

import grpc
import grpc.aio
from google.protobuf.message_factory import GetMessageClass
from msgspec.structs import replace

from gpushare import wire
from gpushare.deviceplugin.allocation.allocate import Allocator
from gpushare.deviceplugin.core.announced_cards import CardChange
from gpushare.deviceplugin.core.container_answer import ContainerAnswer
from gpushare.deviceplugin.core.devices import device_list, spare_slots
from gpushare.deviceplugin.node_status import NodeWriter
from gpushare.deviceplugin.proto import deviceplugin_pb2 as pb
from gpushare.errors import GpushareError
from gpushare.model.cards import MODE_IDS, CardFacts

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")

# The kubelet sends every free id with GetPreferredAllocation; -1 takes any size.
_SERVER_OPTIONS: Final = [("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0)]
# How long calls under way may take when we stop, in seconds.
_GRACE_SECONDS: Final = 1.0

Context = grpc.aio.ServicerContext[object, object]
# How often the sockets are looked at, in seconds: two resources cost 0.2 % of a core.
_LOOK_SECONDS: Final = 0.1
# How long our list may have no reader before we register again, in seconds.
UNWATCHED_SECONDS: Final = 5.0
# How long a kubelet that runs on gets to part with our old registration, in seconds. A new kubelet ends the wait.
PARTING_SECONDS: Final = 1.0
# The kubelet dials us for up to 10 s inside Register.
REGISTER_SECONDS: Final = 30.0
# Between two attempts, in seconds: the first, and the most. A kubelet's socket is there shortly before it answers.
FIRST_PAUSE_SECONDS: Final = 0.02
_LONGEST_PAUSE_SECONDS: Final = 30.0
# Device, inode and creation time of a socket: a re-created file is another one.
Identity = tuple[int, int, int]


class DevicePluginServer:
    """The service of one resource, on a socket of its own.

    Without an ``allocator`` it is that of ``gpu-slot`` on a node in ids mode: there are some, and they mean nothing. Pods that name
    a slot (a policy of the cluster adds it, for nodes in slots mode) can so come to nodes in ids mode too; what their containers
    get is the answer for their memory ids alone.
    """

    def __init__(self, allocator: Allocator | None, node: NodeWriter) -> None:
        # The optional calls that we want: before the ids are chosen, and before each container starts. None for spare slots.
        wanted = allocator is not None
        is_memory = wanted and node.cards.mode == MODE_IDS
        self.resource = wire.RESOURCE_MEMORY if is_memory else wire.RESOURCE_SLOT
        self.socket = wire.PLUGIN_SOCKET if is_memory else wire.SLOT_SOCKET
        self.options = pb.DevicePluginOptions(pre_start_required=wanted, get_preferred_allocation_available=wanted)
        self._allocator = allocator
        self._node = node
        self._devices = device_list if wanted else spare_slots
        # The event of each open stream.
        self._wakes: set[asyncio.Event] = set()
        node.listeners.append(self.announce)
        self._stopping = asyncio.Event()
        self._server: grpc.aio.Server | None = None

    async def start(self, socket: Path) -> None:
        """Serve on ``socket``; a stale file of that name is replaced. The folder's rights decide which programs connect."""
        socket.unlink(missing_ok=True)
        self._stopping.clear()
        self._server = grpc.aio.server(options=_SERVER_OPTIONS)
        self._server.add_generic_rpc_handlers((self._handlers(),))
        self._server.add_insecure_port(f"unix:{socket}")
        await self._server.start()

    def _handlers(self) -> grpc.GenericRpcHandler:
        """The service of ``deviceplugin.proto``: each call is answered by the method of its name."""
        service = pb.DESCRIPTOR.services_by_name["DevicePlugin"]
        handlers = {}
        for call in service.methods:
            of = grpc.unary_stream_rpc_method_handler if call.server_streaming else grpc.unary_unary_rpc_method_handler
            request, answer = GetMessageClass(call.input_type), GetMessageClass(call.output_type)
            handlers[call.name] = of(getattr(self, call.name), request.FromString, answer.SerializeToString)
        return grpc.method_handlers_generic_handler(service.full_name, handlers)

    async def stop(self) -> None:
        """End the streams: a kubelet drops the registered plugin if an old stream ends after a new registration."""
        self._stopping.set()
        self.announce()
        if self._server is not None:
            await self._server.stop(_GRACE_SECONDS)
            self._server = None

    @property
    def is_watched(self) -> bool:
        """Does a kubelet hold our list?"""
        return bool(self._wakes)

    async def GetDevicePluginOptions(self, request: pb.Empty, context: Context) -> pb.DevicePluginOptions:  # noqa: N802
        """The kubelet asks this while our Register call is pending."""
        return self.options

    async def ListAndWatch(  # noqa: N802
        self, request: pb.Empty, context: Context
    ) -> AsyncIterator[pb.ListAndWatchResponse]:
        """The full list immediately, and again after each change of it; the stream stays open until we stop."""
        wake = asyncio.Event()
        self._wakes.add(wake)
        sent: tuple[Sequence[CardFacts], Set[str]] | None = None
        try:
            while not self._stopping.is_set():
                wake.clear()
                # Why a card is unhealthy is not in the list.
                cards = [replace(card, reason="") for card in self._node.cards.cards]
                kept = self._node.kept_ids() if self._allocator is not None else frozenset()
                if (cards, kept) != sent:
                    sent = cards, kept
                    yield self._list(cards, kept)
                await wake.wait()
        finally:
            self._wakes.discard(wake)

    def _list(self, cards: Sequence[CardFacts], kept: Set[str]) -> pb.ListAndWatchResponse:
        message = pb.ListAndWatchResponse()
        # Made in the message: up to 128,000 devices beside it would take 60 MiB for a moment, and three times as long.
        add = message.devices.add
        for one, health in self._devices(cards, kept):
            add(ID=one, health=health)
        unhealthy = sum(not card.healthy for card in cards)
        line = "announced cards=%d unhealthy=%d ids=%d kept_for_pods=%d"
        _LOG.info(line, len(cards), unhealthy, len(message.devices), len(kept))
        return message

    def announce(self, changes: Sequence[CardChange] = ()) -> None:
        """The cards, or the ids that pods keep, changed: each kubelet that holds our list gets the new one."""
        for wake in self._wakes:
            wake.set()

    def begin_registration(self, *, kubelet_is_another: bool) -> None:
        """A kubelet begins with us: what the one before it was answered, or this one before, is not continued."""
        if self._allocator is not None:
            self._allocator.begin_registration(kubelet_is_another=kubelet_is_another)

    async def GetPreferredAllocation(  # noqa: N802
        self, request: pb.PreferredAllocationRequest, context: Context
    ) -> pb.PreferredAllocationResponse:
        """Ids on the card of the pod that is next."""
        answer = pb.PreferredAllocationResponse()
        for one in request.container_requests:
            if self._allocator is None:
                spare = dict.fromkeys([*one.must_include_deviceIDs, *one.available_deviceIDs])
                answer.container_responses.add(deviceIDs=[*spare][: one.allocation_size])
                continue
            work = self._allocator.prefer(one.available_deviceIDs, one.must_include_deviceIDs, one.allocation_size)
            chosen = await _answered(work, context)
            answer.container_responses.add(deviceIDs=chosen)
        return answer

    async def Allocate(self, request: pb.AllocateRequest, context: Context) -> pb.AllocateResponse:  # noqa: N802
        """The answer for each container."""
        asked = [one.devices_ids for one in request.container_requests]
        if self._allocator is None:
            return pb.AllocateResponse(container_responses=[pb.ContainerAllocateResponse() for _ in asked])
        answers = [await _answered(self._allocator.allocate(ids), context) for ids in asked]
        return pb.AllocateResponse(container_responses=map(answer_message, answers))

    async def PreStartContainer(  # noqa: N802
        self, request: pb.PreStartContainerRequest, context: Context
    ) -> pb.PreStartContainerResponse:
        """May the container with these ids start?"""
        if self._allocator is not None:
            await _answered(self._allocator.verify(request.devices_ids), context)
        return pb.PreStartContainerResponse()


def answer_message(answer: ContainerAnswer) -> pb.ContainerAllocateResponse:
    """Mounts are read-only. A kubelet ignores fields that it does not know (``cdi_devices`` before 1.28)."""
    return pb.ContainerAllocateResponse(
        envs=answer.variables,
        mounts=[pb.Mount(container_path=path, host_path=host, read_only=True) for path, host in answer.mounts.items()],
        annotations=answer.annotations,
        cdi_devices=[pb.CDIDevice(name=name) for name in answer.cdi_devices],
    )


async def _answered(work: Awaitable[_T], context: Context) -> _T:
    """The result, or our error as a status."""
    try:
        return await work
    except GpushareError as error:
        _LOG.warning("refused reason=%s", error)
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        raise AssertionError("abort raises") from error


async def stay_registered(server: DevicePluginServer, folder: Path, registrations: Counter[str]) -> None:
    """Serve and register for ever, and again when the kubelet starts again; ends only by cancellation, and then stops serving.

    One call for each resource; ``registrations`` counts by resource those that the kubelet took.

    A kubelet calls back GetDevicePluginOptions *inside* Register, so the server runs first. At its start it removes every
    socket in the folder and creates its own, and it never asks again for a ListAndWatch stream that ended. So whenever
    ``kubelet.sock`` is another file than the one we registered at, our own socket is gone, or no kubelet reads our list, the
    old server is stopped, then a new one registers.

    A kubelet that runs on needs a moment between the two. When it has read the end of a stream, it drops whichever plugin is
    registered for the resource at that time (``runClient`` in its device manager). If that is the new one, the kubelet closes the
    new list, or goes on reading it and will not notice its end. Then the node shows the memory of a plugin that is dead.

    Until a plugin has registered again the node shows none of its cards, and pods that are admitted in between fail for good. So a
    new kubelet must be noticed immediately: the two sockets are looked at ten times a second.
    """
    own, kubelet = folder / server.socket, folder / wire.KUBELET_SOCKET
    pause = FIRST_PAUSE_SECONDS
    last = identity(kubelet)
    while True:
        if identity(kubelet) is None:
            _LOG.warning("waiting for the kubelet socket=%s", kubelet)
            await _rest(math.inf, kubelet, None)
        found = identity(kubelet)
        server.begin_registration(kubelet_is_another=found != last)
        if found != last:
            last, pause = found, FIRST_PAUSE_SECONDS
        try:
            await server.start(own)
            try:
                await _register(kubelet, server)
                if (now := identity(kubelet)) not in (None, last):
                    # It started while we registered. If the one before it answered, this one will not read our list.
                    last = now
                    server.begin_registration(kubelet_is_another=True)
                _LOG.info("registered resource=%s socket=%s", server.resource, own)
                registrations[server.resource] += 1
                pause = FIRST_PAUSE_SECONDS
                await _until_changed(server, own, kubelet, last)
            finally:
                await server.stop()
            await _rest(PARTING_SECONDS, kubelet, last)
        except grpc.aio.AioRpcError as error:
            _LOG.warning(
                "the kubelet refused code=%s details=%s retry_seconds=%.2f", error.code().name, error.details(), pause
            )
            # A kubelet that was slow may have taken this registration in the end.
            is_slow = error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            await _rest(max(pause, PARTING_SECONDS) if is_slow else pause, kubelet, last)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


async def _rest(seconds: float, kubelet: Path, known: Identity | None) -> None:
    """Wait this long, or until there is another socket: a kubelet that ended leaves one at which nothing answers."""
    now = asyncio.get_running_loop().time
    end = now() + seconds
    while identity(kubelet) == known and (left := end - now()) > 0:  # noqa: ASYNC110  # a file has no event
        await asyncio.sleep(min(left, _LOOK_SECONDS))


async def _register(kubelet: Path, server: DevicePluginServer) -> None:
    """Tell the kubelet the resource and its socket. Raises grpc.aio.AioRpcError when it refuses."""
    options = [("grpc.default_authority", "localhost")]
    async with grpc.aio.insecure_channel(f"unix:{kubelet}", options=options) as channel:
        request = pb.RegisterRequest(
            version=wire.DEVICE_PLUGIN_VERSION,
            endpoint=server.socket,
            resource_name=server.resource,
            options=server.options,
        )
        register = channel.unary_unary(
            "/v1beta1.Registration/Register", pb.RegisterRequest.SerializeToString, pb.Empty.FromString
        )
        await register(request, timeout=REGISTER_SECONDS)


async def _until_changed(server: DevicePluginServer, own: Path, kubelet: Path, known: Identity | None) -> None:
    """Until registering again is due. A kubelet asks for the list right after Register; it gets a while for that."""
    now = asyncio.get_running_loop().time
    watched = now()
    while identity(kubelet) == known and identity(own) is not None and now() - watched < UNWATCHED_SECONDS:
        await asyncio.sleep(_LOOK_SECONDS)
        if server.is_watched:
            watched = now()
    _LOG.info(
        "registering again watched=%s: the kubelet restarted, dropped us, or our socket is gone", server.is_watched
    )


def identity(path: Path) -> Identity | None:
    """Which file lies at ``path`` now, or None."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_ctime_ns
