"""The kubelet's two ends towards device plugins: that of one plugin's socket, and the registration socket, ``kubelet.sock``.

Every failure of a plugin is a PluginError with a text as a real kubelet's: the codes have Go's spelling, because that is what
operators (and tests) find in a pod's status.

Rules of registration: Kubernetes pkg/kubelet/cm/devicemanager/plugin/v1beta1. At its start a kubelet removes every socket of the
folder, so that plugins notice, and keeps the checkpoint. Register dials back before it answers, so a plugin that does not serve
yet, or that cannot answer while it waits, is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from clusters.amounts import is_extended_resource
from clusters.kubelet.kubelet_devices import Device
from clusters.kubelet.proto import deviceplugin_pb2 as pb
from clusters.kubelet.proto.grpc_services import DEVICE_PLUGIN, REGISTRATION, serve, stub_of

# The folder of the plugins' sockets, which is one kubelet's, and a resource.
Place = tuple[Path, str]


@dataclass(frozen=True, slots=True)
class PluginCall:
    """One call; each list of a stream is one, and so is the end of the stream. Messages are those of the protocol."""

    at: float
    """When it began, in seconds of the event loop's clock."""
    socket: Path
    """The plugin's, in a folder of the folder that has the node's name; for ``List`` of PodResources the kubelet's."""
    resource: str
    method: str
    question: Any = None
    answer: Any = None
    """None for a refusal, for the end of a stream, and for Register, which is noted as it comes."""
    pod: str = ""
    """``namespace/name`` of the pod that is admitted, if the kubelet knows it."""

    @property
    def node(self) -> str:
        """The name of the kubelet's node."""
        return self.socket.parents[1].name

    @property
    def place(self) -> Place:
        """The same for all plugins that the kubelet has for the resource, one after the other."""
        return self.socket.parent, self.resource


# A logger would not do: pytest writes down each record in words, and lists have tens of thousands of ids.
LISTENERS: Final[list[Callable[[PluginCall], None]]] = []


def note(call: PluginCall) -> None:
    """Pass a call on to those that listen."""
    for listener in LISTENERS:
        listener(call)


# The default limit of grpc-go for one message, which the kubelet leaves as it is, in bytes.
RECEIVE_LIMIT_BYTES: Final = 4 * 1024 * 1024
_OPTIONS: Final = [
    ("grpc.max_receive_message_length", RECEIVE_LIMIT_BYTES),
    ("grpc.max_send_message_length", -1),
    ("grpc.default_authority", "localhost"),
    # A socket that is created again at the same path must not inherit the back-off of the one before.
    ("grpc.use_local_subchannel_pool", 1),
]
_HEALTHY: Final = "Healthy"
# In Go's words: a call on a connection that we closed, before it or during it.
_CLOSING: Final = "rpc error: code = Canceled desc = grpc: the client connection is closing"

SOCKET_NAME: Final = "kubelet.sock"
SUPPORTED_VERSION: Final = "v1beta1"
# A kubelet leaves an empty file beside its socket, to tell of the younger way of registration; plugins see it appear.
HINT_NAME: Final = "DEPRECATION"
# sun_path of a unix socket holds 108 bytes with its closing zero.
_SOCKET_PATH_BYTES: Final = 107
_FOLDER_MODE: Final = 0o750

Connect = Callable[[str, Path], Awaitable[None]]

Context = grpc.aio.ServicerContext[object, object]


class PluginError(Exception):
    """The plugin answered with an error, or not at all."""


class PluginClient:
    """One connection to one registered plugin."""

    def __init__(self, resource: str, socket: Path) -> None:
        self.resource = resource
        self.socket = socket
        self.options = pb.DevicePluginOptions()
        self._is_closed = False
        self._channel = grpc.aio.insecure_channel(f"unix:{socket}", options=_OPTIONS)
        self._stub = stub_of(self._channel, DEVICE_PLUGIN)

    async def connect(self, seconds: float) -> None:
        """Wait until the socket answers, then ask for the options. Raises PluginError."""
        try:
            async with asyncio.timeout(seconds):
                await self._channel.channel_ready()
        except TimeoutError as error:
            raise PluginError(
                f"failed to dial device plugin: no answer on {self.socket} within {seconds:g} s; "
                "a plugin has to serve before it registers"
            ) from error
        except grpc.aio.UsageError as error:
            raise PluginError(f"failed to dial device plugin: {error}") from error
        try:
            # No limit of ours: the plugin waits for the end of its Register call, and knows how long.
            self.options = await self._answered("GetDevicePluginOptions", pb.Empty())
        except PluginError as error:
            raise PluginError(f"failed to get device plugin options: {error}") from error

    async def close(self) -> None:
        """Drop the connection; calls under way end with an error."""
        self._is_closed = True
        await self._channel.close()

    async def lists(self) -> AsyncIterator[tuple[Device, ...]]:
        """Each full list that the plugin sends, until the plugin ends the stream. Raises PluginError when it breaks."""
        try:
            async for message in self._stub.ListAndWatch(pb.Empty()):
                self._note(_now(), "ListAndWatch", None, message)
                yield tuple(Device(device.ID, device.health == _HEALTHY) for device in message.devices)
        except grpc.aio.AioRpcError as error:
            raise PluginError(go_text(error)) from error
        except grpc.aio.UsageError as error:
            raise PluginError(_CLOSING) from error
        finally:
            self._note(_now(), "ListAndWatch", None, None)

    async def preferred(
        self, available: Collection[str], must_include: Collection[str], size: int, pod: str = ""
    ) -> list[str]:
        """The ids that the plugin prefers; [] if it does not offer to choose. Raises PluginError."""
        if not self.options.get_preferred_allocation_available:
            return []
        one = pb.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must_include, allocation_size=size
        )
        request = pb.PreferredAllocationRequest(container_requests=[one])
        answer = await self._answered("GetPreferredAllocation", request, pod)
        return list(answer.container_responses[0].deviceIDs) if answer.container_responses else []

    async def allocate(self, ids: Collection[str], pod: str = "") -> bytes:
        """The plugin's answer for one container, encoded. No time limit, as in a real kubelet. Raises PluginError."""
        request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)])
        answer = await self._answered("Allocate", request, pod)
        if not answer.container_responses:
            raise PluginError("no containers return in allocation response")
        return bytes(answer.container_responses[0].SerializeToString(deterministic=True))

    async def pre_start(self, ids: Collection[str], seconds: float) -> None:
        """Ask before a container starts. Raises PluginError."""
        request = pb.PreStartContainerRequest(devices_ids=ids)
        await self._answered("PreStartContainer", request, seconds=seconds)

    async def _answered(self, method: str, request: object, pod: str = "", *, seconds: float | None = None) -> Any:
        begun, answer = _now(), None
        try:
            answer = await getattr(self._stub, method)(request, timeout=seconds)
            return answer
        except grpc.aio.AioRpcError as error:
            raise PluginError(go_text(error)) from error
        except grpc.aio.UsageError as error:
            # Closed before it was asked: a plugin that registers again closes the old one between two calls for one container.
            raise PluginError(_CLOSING) from error
        except asyncio.CancelledError:
            # Closing a channel cancels its calls, and that looks to the caller as if it were cancelled itself; it may be both.
            caller = asyncio.current_task()
            if not self._is_closed or (caller is not None and caller.cancelling()):
                raise
            raise PluginError(_CLOSING) from None
        finally:
            self._note(begun, method, request, answer, pod)

    def _note(self, begun: float, method: str, request: object, answer: object, pod: str = "") -> None:
        note(PluginCall(begun, self.socket, self.resource, method, request, answer, pod))


def _now() -> float:
    return asyncio.get_running_loop().time()


def go_text(error: grpc.aio.AioRpcError) -> str:
    """An error as Go prints it: ``rpc error: code = FailedPrecondition desc = …``."""
    code = "Canceled" if error.code() is grpc.StatusCode.CANCELLED else error.code().name.title().replace("_", "")
    return f"rpc error: code = {code} desc = {error.details()}"


class Registration:
    """Takes registrations in ``folder`` and hands ``(resource, socket)`` to ``connect``, which raises PluginError to refuse."""

    def __init__(self, folder: Path, connect: Connect) -> None:
        self._folder = folder
        self._connect = connect

    def add_to(self, server: grpc.aio.Server) -> None:
        """Answer there."""
        serve(server, REGISTRATION, self)

    async def Register(self, request: pb.RegisterRequest, context: Context) -> pb.Empty:  # noqa: N802  # gRPC's name
        """One registration; answered only when the plugin has answered us."""
        note(PluginCall(_now(), self._folder / request.endpoint, request.resource_name, "Register", request))
        refusal = refusal_of(request.version, request.resource_name)
        if refusal is None:
            try:
                await self._connect(request.resource_name, self._folder / request.endpoint)
            except PluginError as error:
                refusal = str(error)
        if refusal is not None:
            await context.abort(grpc.StatusCode.UNKNOWN, refusal)
        return pb.Empty()


def refusal_of(version: str, resource: str) -> str | None:
    """Why a kubelet takes no plugin of this API version for this resource, or None."""
    if version != SUPPORTED_VERSION:
        return (
            f'requested API version "{version}" is not supported by kubelet. '
            f'Supported version is ["{SUPPORTED_VERSION}"]'
        )
    if not is_extended_resource(resource):
        return f'the ResourceName "{resource}" is invalid'
    return None


@contextlib.asynccontextmanager
async def serving(folder: Path, add_to: Callable[[grpc.aio.Server], None]) -> AsyncIterator[None]:
    """Serve what is added on ``kubelet.sock`` in a folder while inside; calls under way are cut off at the end.

    Every socket that a former life left in the folder is removed, and nothing else. Raises ValueError if the operating system takes
    no socket of that path.
    """
    socket = folder / SOCKET_NAME
    if len(str(socket).encode()) > _SOCKET_PATH_BYTES:
        raise ValueError(
            f"{socket}: longer than {_SOCKET_PATH_BYTES} bytes, no unix socket fits there; use a shorter root"
        )
    folder.mkdir(parents=True, exist_ok=True, mode=_FOLDER_MODE)
    for path in folder.iterdir():
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink(missing_ok=True)
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    add_to(server)
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(None)
