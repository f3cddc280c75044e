"""The stand-in kubelet of one node: everything of this package put together, and the PodResources API."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from clusters.api.api_client import ApiClient, uid_of
from clusters.api.waiting import meanwhile
from clusters.images.behaviour import Behaviours
from clusters.kubelet import kubelet_devices
from clusters.kubelet.device_manager import DeviceManager
from clusters.kubelet.kubelet_cards import Cards, RealCards
from clusters.kubelet.kubelet_devices import DeviceBook
from clusters.kubelet.kubelet_node_status import NodeStatus
from clusters.kubelet.kubelet_pods import NodePods, Surroundings
from clusters.kubelet.log_endpoint import LogEndpoint
from clusters.kubelet.machine import Machine, Timings
from clusters.kubelet.memory_limits import CDI_FOLDER_NAME, GROUP_FOLDER_NAME, MemoryLimits
from clusters.kubelet.plugin_client import HINT_NAME, SOCKET_NAME, PluginCall, Registration, note, serving
from clusters.kubelet.pods import Kind, Object, containers_of
from clusters.kubelet.proto import podresources_pb2 as pb
from clusters.kubelet.proto.grpc_services import POD_RESOURCES, serve
from clusters.kubelet.runtime import PROCESS_FOLDER_NAME, Probes, Runtime
from clusters.provider import LimitSpec

_LOG = logging.getLogger(__name__)

# The gate ResourceHealthStatus is on by default from this minor of Kubernetes 1 on.
_DEVICE_HEALTH_SINCE: Final = 36
# After one of our own loops failed, in seconds.
_PAUSE_SECONDS: Final = 1.0


class Kubelet:
    """One node: ``start`` it, ``stop`` it, ``restart`` it as often as a test likes.

    Its containers are simulated; the one program that it runs is the probe of GPU containers.

    What it does not do: look at labels and taints again when a pod comes, pull images, run probes (a container that runs is
    ready), mount volumes, evict under pressure, take static pods, resize pods in place, find plugins in
    ``plugins_registry``, take a plugin's NUMA nodes, write the Normal events of a container's life, or stand still for
    minutes over tens of thousands of ids.

    ``root`` is this node's /var/lib/kubelet and must be short enough for unix sockets; ``seed`` decides which ids a
    container gets if no plugin prefers any; ``clock`` gives Unix seconds; ``tls`` is the log endpoint's certificate
    and key.
    """

    def __init__(
        self,
        machine: Machine,
        root: Path,
        client: ApiClient,
        *,
        behaviours: Behaviours,
        cards: Cards | RealCards,
        seed: int | str,
        clock: Callable[[], float],
        timings: Timings,
        tls: tuple[Path, Path] | None = None,
        limits: LimitSpec | None = None,
    ) -> None:
        self.machine = machine
        self.plugin_folder = root / "device-plugins"
        self.pod_resources_socket = root / "pod-resources" / SOCKET_NAME
        probes = Probes(root / "containers", cards)
        processes = root / PROCESS_FOLDER_NAME
        self._limits = MemoryLimits(
            root / GROUP_FOLDER_NAME, processes, cards, limits or LimitSpec(), root / CDI_FOLDER_NAME
        )
        self.runtime = Runtime(behaviours, cards, clock, processes, probes, self._limits)
        self.log_port = 0
        self._client = client
        self._timings = timings
        self._clock = clock
        self._tls = tls
        self._boot = 1
        self._rng = random.Random(seed)  # noqa: S311  # a reproducible choice of ids, no secret
        self._addresses = itertools.cycle(machine.pod_addresses)
        self._parts = contextlib.AsyncExitStack()

    async def start(self) -> None:
        """Come up: register the node, serve the sockets, take the pods. Waits for the API server while it is away.

        Raises ValueError if ``root`` is too long for sockets, and ApiError if the API server refuses the node.
        """
        self._limits.show_kernel()
        devices = DeviceManager(self.plugin_folder, self._rng, self._timings, lambda: devices_changed())
        node = NodeStatus(
            self._client,
            self.machine,
            lambda: devices.book.counts(),
            self._timings,
            self._clock,
            self._boot,
            # These belong to the book of then: the start makes a new one.
            told=lambda resources: devices.book.told(resources),
        )
        around = Surroundings(
            client=self._client,
            runtime=self.runtime,
            devices=devices,
            timings=self._timings,
            clock=self._clock,
            host_ip=self.machine.address,
            new_pod_ip=lambda: next(self._addresses),
            shows_device_health=self.machine.minor >= _DEVICE_HEALTH_SINCE,
        )
        pods = NodePods(self._client, self.machine.name, around, lambda: node.allocatable, self._rng.shuffle)
        logs = LogEndpoint(pods, self._clock, self._tls)
        plugins = Registration(self.plugin_folder, devices.connect)
        lister = PodResources(pods, devices, self._clock, self.pod_resources_socket)

        def devices_changed() -> None:
            node.changed()
            pods.show_devices()

        # Stopped in the reverse order: first our own loops and requests from outside end, then plugins and pods are left.
        for stop in (logs.stop, devices.stop, pods.stop):
            self._parts.push_async_callback(stop)
        try:
            devices.start()
            self.log_port = await logs.start()
            await node.register(self.log_port)
            await self._parts.enter_async_context(serving(self.pod_resources_socket.parent, lister.add_to))
            await self._parts.enter_async_context(serving(self.plugin_folder, plugins.add_to))
            (self.plugin_folder / HINT_NAME).touch()
        except BaseException:
            await self.stop()
            raise
        for work in (node.follow, node.run, node.keep_lease, pods.follow, pods.admit):
            await self._parts.enter_async_context(meanwhile(self._keep_going(work)))
        _LOG.info("kubelet started node=%s root=%s", self.machine.name, self.plugin_folder.parent)

    async def stop(self, *, keep_containers: bool = False) -> None:
        """Go down. The containers end too, as in a power failure, unless they must outlive the kubelet."""
        await self._parts.aclose()
        if not keep_containers:
            self.runtime.kill_all()
            await self.runtime.settled()

    async def restart(self, *, lose_checkpoint: bool = False) -> None:
        """As ``systemctl restart kubelet``: containers run on, plugins have to register again."""
        await self.stop(keep_containers=True)
        self._wipe(lose_checkpoint)
        await self.start()

    async def reboot(self, *, lose_checkpoint: bool = False) -> None:
        """As a restart of the machine: every container ends, the checkpoint stays, the boot id is another."""
        await self.stop()
        self._boot += 1
        self._wipe(lose_checkpoint)
        await self.start()

    def _wipe(self, lose_checkpoint: bool) -> None:
        """Remove the file in which a kubelet keeps the devices of containers."""
        if lose_checkpoint:
            (self.plugin_folder / kubelet_devices.FILE_NAME).unlink(missing_ok=True)

    async def _keep_going(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """A loop that fails is logged and started again: one bad answer must not leave a node without a kubelet."""
        while True:
            try:
                await work()
            except Exception:
                _LOG.exception("loop failed, starting it again node=%s loop=%s", self.machine.name, work.__qualname__)
            await asyncio.sleep(_PAUSE_SECONDS)


# A kubelet's limits: calls a second, and calls in a burst after a pause.
_RATE_PER_SECOND: Final = 100.0
_BURST: Final = 10.0

Context = grpc.aio.ServicerContext[object, object]


class PodResources:
    """The PodResources API: answers from the pods of a node, and the book of their devices; ``clock`` is in seconds.

    Rules: Kubernetes pkg/kubelet/apis/podresources. ``List`` shows active pods and takes back what ended pods had; ``Get`` shows
    any pod of the node and takes nothing back. Sidecars and containers, no ordinary init containers; each device a
    ContainerDevices of its own; devices show once their Allocate has returned. A burst of questions is refused.
    """

    def __init__(self, pods: NodePods, devices: DeviceManager, clock: Callable[[], float], socket: Path) -> None:
        self._pods = pods
        self._devices = devices
        self._clock = clock
        self._socket = socket
        # A bucket of calls that fills again with time.
        self._calls, self._last = _BURST, clock()

    def add_to(self, server: grpc.aio.Server) -> None:
        """Answer there."""
        serve(server, POD_RESOURCES, self)

    async def List(  # noqa: N802  # gRPC's name
        self, request: pb.ListPodResourcesRequest, context: Context
    ) -> pb.ListPodResourcesResponse:
        """Every active pod, with or without devices."""
        await self._check_rate(context)
        self._pods.release_ended()
        pods = [pod_resources(pod, self._devices.book) for pod in self._pods.active_pods()]
        answer = pb.ListPodResourcesResponse(pod_resources=pods)
        note(PluginCall(asyncio.get_running_loop().time(), self._socket, "", "List", request, answer))
        return answer

    async def Get(self, request: pb.GetPodResourcesRequest, context: Context) -> pb.GetPodResourcesResponse:  # noqa: N802
        """One pod by name, whether it has ended or not."""
        await self._check_rate(context)
        wanted = (request.pod_namespace, request.pod_name)
        for pod in self._pods.all_pods():
            if (pod["metadata"]["namespace"], pod["metadata"]["name"]) == wanted:
                return pb.GetPodResourcesResponse(pod_resources=pod_resources(pod, self._devices.book))
        text = f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
        await context.abort(grpc.StatusCode.UNKNOWN, text)
        raise AssertionError("abort raises")

    async def _check_rate(self, context: Context) -> None:
        now = self._clock()
        self._calls = min(_BURST, self._calls + max(now - self._last, 0.0) * _RATE_PER_SECOND)
        self._last = now
        if self._calls < 1:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        self._calls -= 1


def pod_resources(pod: Object, book: DeviceBook) -> pb.PodResources:
    """One pod's message."""
    containers = [
        pb.ContainerResources(
            name=container.name,
            devices=[
                pb.ContainerDevices(resource_name=allocation.resource, device_ids=[device_id])
                for allocation in book.allocations_of(uid_of(pod), container.name)
                for device_id in allocation.ids
            ],
        )
        for container in containers_of(pod)
        if container.kind is not Kind.INIT
    ]
    metadata = pod["metadata"]
    return pb.PodResources(name=metadata["name"], namespace=metadata["namespace"], containers=containers)
