"""A kubelet and a namespace for one case, a resource of its own, and what is seen of them from outside."""

from __future__ import annotations

from typing import Any

import grpc.aio

from clusters.api.api_client import ApiClient, ApiError, Object
from clusters.api.resources import EVENTS, NODES, PODS
from clusters.api.waiting import DEFAULT_SECONDS, eventually
from clusters.kubelet.proto import podresources_pb2 as pb
from clusters.kubelet.proto import podresources_pb2_grpc as pb_grpc
from e2e.builders import PLAYER
from e2e.kubelet.kubelets import KubeletUnderTest
from e2e.kubelet.sample_plugin import SamplePlugin

# Prints its variables, then runs until it is stopped.
ENV_AND_SLEEP = ["sh", "-c", "env; sleep infinity"]


class Stage:
    """One kubelet, between ``open`` and ``close``.

    ``name`` is no other case's: a kubelet never forgets the name of a resource.
    """

    def __init__(self, kubelet: KubeletUnderTest, api: ApiClient, namespace: str, name: str) -> None:
        self.kubelet = kubelet
        self.api = api
        self.namespace = namespace
        self.node = kubelet.node
        self.resource = f"example.com/{name}"
        self.by_hand = f"{self.resource}-by-hand"
        self._socket_name = f"{name}.sock"
        self._plugins: list[SamplePlugin] = []

    async def open(self) -> None:
        """Wait for the kubelet."""
        await self.kubelet.open()

    async def close(self) -> None:
        """Take the pods away, then the plugins, then what the kubelet has of the case."""
        for pod in await self.pods():
            await self.delete(pod["metadata"]["name"], grace_seconds=0)
        await eventually(self.pods, lambda pods: not pods, f"the pods of {self.namespace} are gone")
        for plugin in self._plugins:
            await plugin.stop()
        await self._write_capacity(None)
        await self.kubelet.close()

    async def plug(self, plugin: SamplePlugin, socket_name: str = "") -> SamplePlugin:
        """Start a plugin, or start it again; it is stopped with the case."""
        if plugin in self._plugins:
            await plugin.stop()
        else:
            self._plugins.append(plugin)
        await plugin.start(self.kubelet.plugin_folder, self.resource, socket_name or self._socket_name)
        return plugin

    async def restart(self, *, lose_checkpoint: bool = False) -> None:
        """Restart the kubelet; containers run on, plugins have to register again."""
        await self.kubelet.stop()
        if lose_checkpoint:
            self.kubelet.lose_checkpoint()
        await self.kubelet.start()

    async def declare(self) -> None:
        """One of the resource ``by_hand``, as an operator declares it; with the case it goes."""
        await self._write_capacity("1")

    async def _write_capacity(self, amount: str | None) -> None:
        status = {"status": {"capacity": {self.by_hand: amount}}}
        await self.api.patch(NODES, self.node, status, subresource="status")

    async def counts(self, capacity: int | None, allocatable: int | None, *, seconds: float = DEFAULT_SECONDS) -> None:
        """Wait until the node shows these amounts of the case's resource; None: no key."""

        async def seen() -> tuple[Any, Any]:
            status = (await self.api.get(NODES, self.node))["status"]
            return status["capacity"].get(self.resource), status["allocatable"].get(self.resource)

        wanted = tuple(None if count is None else str(count) for count in (capacity, allocatable))
        what = f"{self.node} shows capacity, allocatable {wanted}"
        await eventually(seen, lambda found: found == wanted, what, seconds=seconds)

    def container(
        self, name: str = "main", devices: int = 0, *, command: list[str] | None = None, **more: Any
    ) -> Object:
        """A container that asks for this number of the case's devices."""
        limits = {"limits": {self.resource: str(devices)}} if devices else {}
        return {"name": name, "image": PLAYER, "command": command or ENV_AND_SLEEP, "resources": limits, **more}

    async def create(self, name: str, *containers: Object, **spec: Any) -> Object:
        """A pod that is bound to the node already."""
        body = {"nodeName": self.node, "terminationGracePeriodSeconds": 1, "containers": list(containers), **spec}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body}
        return await self.api.create(pod, self.namespace)

    async def bind(self, name: str) -> None:
        """Bind a pod that is not bound yet to the node, as a scheduler would."""
        target = {"apiVersion": "v1", "kind": "Node", "name": self.node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        await self.api.request("POST", PODS.path(self.namespace, name, "binding"), body=binding)

    async def delete(self, name: str, *, grace_seconds: int | None = None) -> None:
        """Ask for a pod's end; the kubelet may have been quicker."""
        try:
            await self.api.delete(PODS, name, self.namespace, grace_seconds=grace_seconds)
        except ApiError as error:
            if error.reason != "NotFound":
                raise

    async def pods(self) -> list[Object]:
        """The case's pods."""
        return await self.api.list(PODS, self.namespace)

    async def pod(self, name: str) -> Object:
        """The pod as the API server has it."""
        return await self.api.get(PODS, name, self.namespace)

    async def reaches(self, name: str, phase: str) -> Object:
        """Wait for a phase; the pod."""
        return await eventually(
            lambda: self.pod(name), lambda seen: seen["status"].get("phase") == phase, f"{name} is {phase}"
        )

    async def restarts(self, name: str, count: int) -> None:
        """Wait until the pod's container was restarted this number of times."""

        async def seen() -> int:
            statuses = (await self.pod(name))["status"].get("containerStatuses") or [{}]
            return int(statuses[0].get("restartCount", 0))

        await eventually(seen, lambda found: found >= count, f"{name} was restarted {count} times")

    async def is_gone(self, name: str) -> None:
        """Wait until there is no such pod."""

        async def names() -> list[str]:
            return [pod["metadata"]["name"] for pod in await self.pods()]

        await eventually(names, lambda found: name not in found, f"{name} is gone")

    async def log(self, name: str, **query: str) -> str:
        """A container's log, through the API server."""
        return await self.api.text(PODS.path(self.namespace, name, "log"), query)

    async def told_ids(self, name: str, container: str = "main") -> set[str]:
        """The ids that the plugin's answer put into the container, which prints them some time after its start."""

        async def look() -> set[str]:
            lines = (await self.log(name, container=container)).splitlines()
            return {line.removeprefix("IDS=") for line in lines if line.startswith("IDS=")}

        (told,) = await eventually(look, bool, f"{name}/{container} says its ids")
        return set(told.split(","))

    async def held(self) -> dict[tuple[str, str], set[str]]:
        """The holders of ids, by PodResources: (pod, container) → ids, of this case's pods."""
        return held_by(await self.listed())

    async def listed(self) -> list[pb.PodResources]:
        """This case's pods, as PodResources lists them."""
        async with grpc.aio.insecure_channel(f"unix:{self.kubelet.pod_resources_socket}") as channel:
            answer = await pb_grpc.PodResourcesListerStub(channel).List(pb.ListPodResourcesRequest())
        return [pod for pod in answer.pod_resources if pod.namespace == self.namespace]

    async def holds(self, pod: str, ids: set[str]) -> None:
        """Wait until PodResources shows this of the pod's container ``main``; a kubelet that has just started knows no pods yet."""
        await eventually(self.held, lambda held: held.get((pod, "main")) == ids, f"{pod} has {ids}")

    async def warnings(self, name: str) -> list[tuple[str, str]]:
        """Reason and message of the Warning events about a pod."""
        found = await self.api.list(EVENTS, self.namespace, field_selector=f"involvedObject.name={name}")
        return [(event["reason"], event["message"]) for event in found if event["type"] == "Warning"]


def held_by(pods: list[pb.PodResources]) -> dict[tuple[str, str], set[str]]:
    """(pod, container) → ids: the union of what is listed of it."""
    return {
        (pod.name, container.name): {device_id for one in container.devices for device_id in one.device_ids}
        for pod in pods
        for container in pod.containers
    }
