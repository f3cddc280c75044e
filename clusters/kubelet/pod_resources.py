"""The PodResources API: which container has which devices.

Rules: Kubernetes pkg/kubelet/apis/podresources. ``List`` shows active pods and takes back what ended pods had; ``Get`` shows
any pod of the node and takes nothing back. Sidecars and containers, no ordinary init containers; each device a
ContainerDevices of its own; devices show once their Allocate has returned. A burst of questions is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

import grpc
import grpc.aio

from clusters.kubelet.device_manager import DeviceManager
from clusters.kubelet.kubelet_devices import DeviceBook
from clusters.kubelet.kubelet_pods import NodePods
from clusters.kubelet.plugin_client import PluginCall, note
from clusters.kubelet.pods import Kind, Object, containers_of, uid_of
from clusters.kubelet.proto import podresources_pb2 as pb
from clusters.kubelet.proto.grpc_services import POD_RESOURCES, serve

# A kubelet's limits: calls a second, and calls in a burst after a pause.
_RATE_PER_SECOND: Final = 100.0
_BURST: Final = 10.0

Context = grpc.aio.ServicerContext[object, object]


class PodResources:
    """Answers from the pods of a node, and the book of their devices; ``clock`` is in seconds."""

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
