"""A kubelet and a namespace for one case, a resource of its own, and what is seen of them from outside."""

from __future__ import annotations

from typing import Any

from clusters.api.api_client import Object
from clusters.api.resources import EVENTS, NODES, PODS
from clusters.api.waiting import DEFAULT_SECONDS, eventually
from clusters.kubelet.proto import podresources_pb2 as pb
from e2e.builders import PLAYER
from e2e.kubelet.sample_plugin import SamplePlugin, healthy, pods_listed
from e2e.kubelet.stand_in import StandIn
from e2e.kubelet.worker import Worker
from e2e.observer import Observer

# The kubelet of a case: our stand-in, or a real one on a worker.
KubeletUnderTest = StandIn | Worker
# Prints its variables, then runs until it is stopped.
ENV_AND_SLEEP = ["sh", "-c", "env; sleep infinity"]


class NodeUnderTest:
    """One kubelet, between ``open`` and ``close``.

    ``name`` is no other case's: a kubelet never forgets the name of a resource.
    """

    def __init__(self, kubelet: KubeletUnderTest, observer: Observer, name: str) -> None:
        self.kubelet = kubelet
        self.api = observer.cluster.api
        self.namespace = observer.namespace
        self.pod = observer.pod
        self.delete = observer.delete
        self.reaches = observer.reaches
        self.is_gone = observer.are_gone
        self._observer = observer
        self.node = kubelet.node
        self.resource = f"example.com/{name}"
        self.by_hand = f"{self.resource}-by-hand"
        self._socket_name = f"{name}.sock"
        self._plugins: list[SamplePlugin] = []

    async def open(self) -> None:
        await self.kubelet.open()

    async def close(self) -> None:
        """Take the pods away, then the plugins, then what the kubelet has of the case."""
        await self._observer.clear()
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

    async def serve(self, count: int, **options: Any) -> SamplePlugin:
        """Start a plugin with this number of healthy devices, and wait until the node shows them."""
        plugin = await self.plug(SamplePlugin(healthy(count), **options))
        await self.counts(count, count)
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

        async def seen() -> list[Any]:
            status = (await self.api.get(NODES, self.node))["status"]
            return [status[kind].get(self.resource) for kind in ("capacity", "allocatable")]

        wanted = [None if count is None else str(count) for count in (capacity, allocatable)]
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

    async def run(self, name: str, *containers: Object, **spec: Any) -> Object:
        """Create such a pod, and wait until it runs; the pod."""
        await self.create(name, *containers, **spec)
        return await self.reaches(name, "Running")

    async def bind(self, name: str) -> None:
        """Bind a pod that is not bound yet to the node, as a scheduler would."""
        await self._observer.bind(name, self.node)

    async def restarts(self, name: str, count: int) -> None:
        """Wait until the pod's container was restarted this number of times."""

        def is_restarted(pod: Object) -> bool:
            statuses = pod["status"].get("containerStatuses") or [{}]
            return int(statuses[0].get("restartCount", 0)) >= count

        await eventually(lambda: self.pod(name), is_restarted, f"{name} was restarted {count} times")

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
        return [pod for pod in await pods_listed(self.kubelet.pod_resources_socket) if pod.namespace == self.namespace]

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
