"""A node of one case: a stand-in kubelet with a folder and an account of its own, and what is seen of it from outside."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import grpc.aio

from clusters.api_client import ApiClient, ApiError, Object
from clusters.clock import Clock
from clusters.images.behaviour import Behaviours
from clusters.kubelet.cards import NoCards
from clusters.kubelet.kubelet import Kubelet
from clusters.kubelet.machine import Machine
from clusters.kubelet.proto import podresources_pb2 as pb
from clusters.kubelet.proto import podresources_pb2_grpc as pb_grpc
from clusters.kubelet.timings import Timings
from clusters.local_cluster import LocalCluster
from clusters.resources import EVENTS, NODES, PODS
from clusters.waiting import eventually
from e2e.kubelet.sample_plugin import RESOURCE, SamplePlugin

# Prints its variables, then runs until it is stopped.
ENV_AND_SLEEP = ["sh", "-c", "env; sleep infinity"]


class Stage:
    """One node, between ``open`` and ``close``."""

    def __init__(self, cluster: LocalCluster, namespace: str, node: str, folder: Path, timings: Timings) -> None:
        self._cluster = cluster
        self._folder = folder
        self._timings = timings
        self._stack = contextlib.AsyncExitStack()
        self.api = cluster.api
        self.namespace = namespace
        self.node = node
        self.kubelet: Kubelet

    async def open(self) -> None:
        """Start the kubelet."""
        plane = self._cluster.control_plane
        server = await self.api.request("GET", "/version")
        # A kubelet of the API server's own minor.
        machine = Machine(self.node, version=f"v{server['major']}.{server['minor']}.0")
        account = await self._stack.enter_async_context(ApiClient.from_kubeconfig(plane.kubelet_kubeconfig(self.node)))
        self.kubelet = Kubelet(
            machine,
            self._folder,
            account,
            behaviours=Behaviours.load(),
            cards=NoCards(),
            seed=self.node,
            clock=Clock().timestamp,
            timings=self._timings,
            tls=plane.kubelet_certificate(self.node, machine.address),
        )
        await self.kubelet.start()

    async def close(self) -> None:
        """Take the node away, and its pods."""
        for pod in await self.api.list(PODS, self.namespace):
            await self.api.delete(PODS, pod["metadata"]["name"], self.namespace, grace_seconds=0)
        await self.kubelet.stop()
        with contextlib.suppress(ApiError):
            await self.api.delete(NODES, self.node)
        await self._stack.aclose()

    async def plug(self, plugin: SamplePlugin) -> SamplePlugin:
        """Start a plugin; it is stopped with the case."""
        self._stack.push_async_callback(plugin.stop)
        await plugin.start(self.kubelet.plugin_folder)
        return plugin

    async def counts(self, capacity: int | None, allocatable: int | None) -> None:
        """Wait until the node shows these amounts of the sample resource; None: no key."""

        async def seen() -> tuple[Any, Any]:
            status = (await self.api.get(NODES, self.node))["status"]
            return status["capacity"].get(RESOURCE), status["allocatable"].get(RESOURCE)

        wanted = tuple(None if count is None else str(count) for count in (capacity, allocatable))
        await eventually(seen, lambda found: found == wanted, f"{self.node} shows capacity, allocatable {wanted}")

    async def create(self, name: str, *containers: Object, **spec: Any) -> None:
        """A pod that is bound to the node already."""
        body = {"nodeName": self.node, "terminationGracePeriodSeconds": 1, "containers": list(containers), **spec}
        await self.api.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body}, self.namespace
        )

    async def pod(self, name: str) -> Object:
        """The pod as the API server has it."""
        return await self.api.get(PODS, name, self.namespace)

    async def reaches(self, name: str, phase: str) -> Object:
        """Wait for a phase; the pod."""
        return await eventually(
            lambda: self.pod(name), lambda seen: seen["status"].get("phase") == phase, f"{name} is {phase}"
        )

    async def restarts(self, name: str, count: int) -> None:
        """Wait until the pod's container was started again so many times."""

        async def seen() -> int:
            statuses = (await self.pod(name))["status"].get("containerStatuses") or [{}]
            return int(statuses[0].get("restartCount", 0))

        await eventually(seen, lambda found: found >= count, f"{name} was restarted {count} times")

    async def is_gone(self, name: str) -> None:
        """Wait until there is no such pod."""

        async def names() -> list[str]:
            return [pod["metadata"]["name"] for pod in await self.api.list(PODS, self.namespace)]

        await eventually(names, lambda found: name not in found, f"{name} is gone")

    async def log(self, name: str, **query: str) -> str:
        """A container's log, through the API server."""
        return await self.api.text(PODS.path(self.namespace, name, "log"), query)

    async def told_ids(self, name: str, container: str = "main") -> set[str]:
        """The ids that the plugin's answer put into the container."""
        lines = (await self.log(name, container=container)).splitlines()
        (told,) = {line.removeprefix("IDS=") for line in lines if line.startswith("IDS=")}
        return set(told.split(","))

    async def held(self) -> dict[tuple[str, str], set[str]]:
        """Who has which ids, as PodResources says: (pod, container) → ids, of this case's pods."""
        async with grpc.aio.insecure_channel(f"unix:{self.kubelet.pod_resources_socket}") as channel:
            answer = await pb_grpc.PodResourcesListerStub(channel).List(pb.ListPodResourcesRequest())
        return {
            (pod.name, container.name): {device_id for one in container.devices for device_id in one.device_ids}
            for pod in answer.pod_resources
            for container in pod.containers
        }

    async def holds(self, pod: str, ids: set[str]) -> None:
        """Wait until PodResources says so of the pod's container ``main``; a kubelet that has just started knows no pods yet."""
        await eventually(self.held, lambda held: held.get((pod, "main")) == ids, f"{pod} has {ids}")

    async def warnings(self, name: str) -> list[tuple[str, str]]:
        """Reason and message of the Warning events about a pod."""
        found = await self.api.list(EVENTS, self.namespace, field_selector=f"involvedObject.name={name}")
        return [(event["reason"], event["message"]) for event in found if event["type"] == "Warning"]


def container(name: str = "main", devices: int = 0, *, command: list[str] | None = None, **more: Any) -> Object:
    """A container that asks for so many of the sample's devices."""
    limits = {"limits": {RESOURCE: str(devices)}} if devices else {}
    return {
        "name": name,
        "image": "simulated/sleeper",
        "command": command or ENV_AND_SLEEP,
        "resources": limits,
        **more,
    }
