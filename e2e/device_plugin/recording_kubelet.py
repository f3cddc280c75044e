"""The kubelet's two sockets and nothing else: it takes registrations, reads lists, and asks only when a case does."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from clusters.api import exchanges
from clusters.kubelet.plugin_client import PluginCall, note
from clusters.kubelet.proto import deviceplugin_pb2 as pb
from clusters.kubelet.proto import podresources_pb2 as pr
from clusters.kubelet.proto.grpc_services import DEVICE_PLUGIN, POD_RESOURCES, REGISTRATION, serve, stub_of

_UNLIMITED: Final = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
_SOCKET_OPTIONS: Final = [*_UNLIMITED, ("grpc.so_reuseport", 0)]
_CLIENT_OPTIONS: Final = [*_UNLIMITED, ("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1)]
_DIAL_SECONDS: Final = 10.0
# The holders of ids: (namespace, pod) → container → groups of ids, each a message of its own.
Holdings = dict[tuple[str, str], dict[str, list[list[str]]]]


@dataclass(slots=True)
class Registration:
    """One Register call, and what came of it."""

    version: str
    endpoint: str
    resource: str
    options: pb.DevicePluginOptions = field(default_factory=pb.DevicePluginOptions)
    """Asked of the plugin before Register was answered."""
    lists: list[pb.ListAndWatchResponse] = field(default_factory=list)
    has_ended: bool = False
    """Whether its stream has ended."""
    called: float = 0.0
    """When it called, in seconds of the event loop's clock."""

    def ids(self, healthy: bool | None = None) -> list[str]:
        """The ids of the newest list; those that are healthy, or not, if ``healthy`` is given."""
        wanted = {True: ("Healthy",), False: ("Unhealthy",), None: ("Healthy", "Unhealthy")}[healthy]
        return [device.ID for device in self.lists[-1].devices if device.health in wanted] if self.lists else []


class RecordingKubelet:
    """``refusal`` is the text with which Register is refused; ``holdings`` the content of PodResources.

    ``pod_resources_refusals`` are errors (code, text) with which PodResources answers its next calls.
    """

    def __init__(self, plugin_folder: Path, pod_resources: Path) -> None:
        self.registrations: list[Registration] = []
        self.calls: list[PluginCall] = []
        """Those between it and plugins."""
        self.refusal = ""
        self.holdings: Holdings = {}
        self.pod_resources_refusals: list[tuple[grpc.StatusCode, str]] = []
        self._folder = plugin_folder
        self._pod_resources = pod_resources
        self._servers: list[grpc.aio.Server] = []
        self._channels: list[grpc.aio.Channel] = []
        self._streams: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Serve both sockets; those that lie there are replaced, as by a kubelet that starts."""
        for folder in (self._folder, self._pod_resources.parent):
            folder.mkdir(parents=True, exist_ok=True)
        for socket in self._folder.glob("*.sock"):
            socket.unlink(missing_ok=True)  # its plugin may be quicker
        self._pod_resources.unlink(missing_ok=True)
        for path in (self._folder / "kubelet.sock", self._pod_resources):
            server = grpc.aio.server(options=_SOCKET_OPTIONS)
            serve(server, REGISTRATION, self)
            serve(server, POD_RESOURCES, self)
            server.add_insecure_port(f"unix:{path}")
            await server.start()
            self._servers.append(server)

    async def stop(self) -> None:
        """Leave without a word."""
        for stream in list(self._streams):
            stream.cancel()
        await asyncio.gather(*self._streams, return_exceptions=True)
        for channel in self._channels:
            await channel.close()
        for server in self._servers:
            await server.stop(None)
        self._servers, self._channels = [], []

    async def restart(self) -> None:
        """A kubelet that restarts: new sockets, no memory of plugins."""
        await self.stop()
        await self.start()

    def latest(self, resource: str) -> Registration | None:
        """The newest registration of a resource that has a list."""
        found = [one for one in self.registrations if one.resource == resource and one.lists and not one.has_ended]
        return found[-1] if found else None

    async def prefer(
        self, resource: str, available: Collection[str], size: int, must: Collection[str] = ()
    ) -> list[str]:
        """The ids for one container: GetPreferredAllocation's if the plugin offers that, else any. Raises grpc.aio.AioRpcError."""
        if not self._plugin(resource).options.get_preferred_allocation_available:
            return [*must, *(one for one in available if one not in must)][:size]
        one = pb.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size
        )
        request = pb.PreferredAllocationRequest(container_requests=[one])
        answer = await self._answered(resource, "GetPreferredAllocation", request)
        return list(answer.container_responses[0].deviceIDs)

    async def allocate(self, resource: str, *ids: Sequence[str]) -> list[pb.ContainerAllocateResponse]:
        """Allocate, with one request a container. Raises grpc.aio.AioRpcError."""
        requests = [pb.ContainerAllocateRequest(devices_ids=list(one)) for one in ids]
        answer = await self._answered(resource, "Allocate", pb.AllocateRequest(container_requests=requests))
        return list(answer.container_responses)

    async def pre_start(self, resource: str, ids: Sequence[str]) -> None:
        """PreStartContainer, with a kubelet's 30 s, if the plugin requires it. Raises grpc.aio.AioRpcError."""
        if not self._plugin(resource).options.pre_start_required:
            return
        request = pb.PreStartContainerRequest(devices_ids=list(ids))
        await self._answered(resource, "PreStartContainer", request, seconds=30)

    def hold(self, namespace: str, pod: str, container: str, *groups: Sequence[str]) -> None:
        """From now on PodResources shows that a container has these ids."""
        self.holdings.setdefault((namespace, pod), {})[container] = [list(group) for group in groups]

    def _plugin(self, resource: str) -> Registration:
        registration = self.latest(resource)
        assert registration is not None, f"no plugin is registered for {resource}"
        return registration

    async def _answered(self, resource: str, method: str, request: object, *, seconds: float | None = None) -> Any:
        begun, endpoint, answer = asyncio.get_running_loop().time(), self._plugin(resource).endpoint, None
        try:
            async with grpc.aio.insecure_channel(f"unix:{self._folder / endpoint}", options=_CLIENT_OPTIONS) as channel:
                answer = await getattr(stub_of(channel, DEVICE_PLUGIN), method)(request, timeout=seconds)
            exchanges.note(method, request, grpc.StatusCode.OK.name, answer)
            return answer
        except grpc.aio.AioRpcError as error:
            exchanges.note(method, request, error.code().name, error.details())
            raise
        finally:
            self._note(begun, endpoint, resource, method, request, answer)

    def _note(self, at: float, endpoint: str, resource: str, method: str, question: object, answer: object) -> None:
        self.calls.append(PluginCall(at, self._folder / endpoint, resource, method, question, answer))
        note(self.calls[-1])

    async def Register(  # noqa: N802  # gRPC's name
        self, request: pb.RegisterRequest, context: grpc.aio.ServicerContext[object, object]
    ) -> pb.Empty:
        """Dial the plugin, ask for its options, and only then answer."""
        called = asyncio.get_running_loop().time()
        registration = Registration(request.version, request.endpoint, request.resource_name, called=called)
        self._note(called, request.endpoint, request.resource_name, "Register", request, None)
        self.registrations.append(registration)
        if self.refusal:
            await context.abort(grpc.StatusCode.UNKNOWN, self.refusal)
        channel = grpc.aio.insecure_channel(f"unix:{self._folder / request.endpoint}", options=_CLIENT_OPTIONS)
        self._channels.append(channel)
        stub = stub_of(channel, DEVICE_PLUGIN)
        registration.options = await stub.GetDevicePluginOptions(pb.Empty(), timeout=_DIAL_SECONDS, wait_for_ready=True)
        stream = asyncio.create_task(self._follow(stub, registration))
        self._streams.add(stream)
        stream.add_done_callback(self._streams.discard)
        return pb.Empty()

    async def _follow(self, stub: Any, registration: Registration) -> None:
        def note_list(message: pb.ListAndWatchResponse | None) -> None:
            at = asyncio.get_running_loop().time()
            self._note(at, registration.endpoint, registration.resource, "ListAndWatch", None, message)

        try:
            async for message in stub.ListAndWatch(pb.Empty()):
                note_list(message)
                registration.lists.append(message)
        except grpc.aio.AioRpcError:
            pass
        finally:
            registration.has_ended = True
            note_list(None)

    async def List(  # noqa: N802
        self, request: pr.ListPodResourcesRequest, context: grpc.aio.ServicerContext[object, object]
    ) -> pr.ListPodResourcesResponse:
        """The holders of ids."""
        if self.pod_resources_refusals:
            await context.abort(*self.pod_resources_refusals.pop(0))
        return pr.ListPodResourcesResponse(pod_resources=[_message(key, held) for key, held in self.holdings.items()])

    async def Get(  # noqa: N802
        self, request: pr.GetPodResourcesRequest, context: grpc.aio.ServicerContext[object, object]
    ) -> pr.GetPodResourcesResponse:
        """As a kubelet on which this verb is off."""
        await context.abort(grpc.StatusCode.UNKNOWN, "PodResources API Get method disabled")
        raise AssertionError("abort raises")


def _message(key: tuple[str, str], held: Mapping[str, Sequence[Sequence[str]]]) -> pr.PodResources:
    containers = [
        pr.ContainerResources(
            name=name,
            devices=[pr.ContainerDevices(resource_name="aliyun.com/gpu-mem", device_ids=group) for group in groups],
        )
        for name, groups in held.items()
    ]
    return pr.PodResources(namespace=key[0], name=key[1], containers=containers)
