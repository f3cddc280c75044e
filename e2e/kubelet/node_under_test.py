"""A kubelet and a namespace for one case, a resource of its own, and what is seen of them from outside.

The kubelet is our stand-in, or one of the cluster's own nodes: a real one if the cluster has such.
"""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import grpc.aio

from clusters.api.api_client import ApiClient, ApiError, Object
from clusters.api.resources import EVENTS, NODES, PODS
from clusters.api.waiting import DEFAULT_SECONDS, eventually
from clusters.clock import Clock
from clusters.images.behaviour import Behaviours
from clusters.kind.kind_cluster import KindCluster
from clusters.kubelet import kubelet_devices
from clusters.kubelet.kubelet import Kubelet
from clusters.kubelet.kubelet_cards import Cards
from clusters.kubelet.machine import Machine, Timings
from clusters.kubelet.proto import podresources_pb2 as pb
from clusters.local_cluster import LocalCluster
from clusters.provider import Cluster
from e2e.builders import PLAYER
from e2e.kubelet.sample_plugin import SamplePlugin, healthy, pods_listed
from e2e.observer import Observer

_KUBELET: Final = "kubelet"
_CHECKPOINT: Final = "kubelet_internal_checkpoint"
_CDI_FOLDER: Final = "/etc/cdi"


class Worker:
    """The kubelet of one of the cluster's own nodes, up between ``open`` and ``close``: nothing is scaled, and it was there before.

    The device plugin under test stays on the node: a case has a resource of its own, and the plugin comes back after
    each restart, as it must.

    ``minor`` is that of its Kubernetes release: 36 for 1.36. In ``plugin_folder`` this process can serve a socket for it, and at
    ``pod_resources_socket`` ask it which container has which devices.
    """

    def __init__(self, cluster: Cluster, node: str) -> None:
        self.node = node
        self.minor = 0
        self.plugin_folder = cluster.kubelet_folder(node) / "device-plugins"
        self.pod_resources_socket = cluster.kubelet_folder(node) / "pod-resources" / "kubelet.sock"
        self._cluster = cluster
        self._is_down = False

    async def open(self) -> None:
        node = await self._cluster.api.get(NODES, self.node)
        self.minor = int(node["status"]["nodeInfo"]["kubeletVersion"].split(".")[1])

    async def close(self) -> None:
        """Start it if a case has failed while it was down."""
        if self._is_down:
            await self.start()

    async def stop(self) -> None:
        await self._cluster.kill(_KUBELET, self.node)
        self._is_down = True

    async def start(self) -> None:
        """Come up again, with new sockets; returns when plugins can register."""
        await self._cluster.launch(_KUBELET, self.node)
        self._is_down = False
        await self._answers()

    async def reboot(self) -> None:
        """The machine restarts: all containers end, the checkpoint stays."""
        await self._cluster.restart_kubelet(self.node, reboot=True)
        await self._answers()

    def lose_checkpoint(self) -> None:
        """The file in which it keeps the devices of containers is removed; it is down during that."""
        Path(self.plugin_folder / _CHECKPOINT).unlink()

    async def declare_cdi(self, specification: Mapping[str, object]) -> None:
        """A CDI specification on the node, in the folder that its container runtime reads."""
        assert isinstance(self._cluster, KindCluster)
        name = str(specification["kind"]).replace("/", "-")
        script = (
            f"mkdir -p {_CDI_FOLDER} && printf %s {shlex.quote(json.dumps(specification))} > {_CDI_FOLDER}/{name}.json"
        )
        await self._cluster.workers.container(self.node).execute("sh", "-c", script)

    async def _answers(self) -> None:
        """Its second socket may come after the first."""

        async def asked() -> bool:
            try:
                await pods_listed(self.pod_resources_socket)
            except grpc.aio.AioRpcError:
                return False
            return True

        await eventually(asked, bool, f"the kubelet of {self.node} shows which container has which devices")


class StandIn:
    """Our kubelet: a node of its own beside those of the cluster, with waits that a case may scale.

    Its sockets are in ``folder``, which is short. Each member is as ``Worker`` has it.
    """

    def __init__(self, cluster: LocalCluster, node: str, folder: Path, timings: Timings) -> None:
        self.node = node
        self.minor = 0
        self.plugin_folder = Path()
        self.pod_resources_socket = Path()
        self._cluster = cluster
        self._folder = folder
        self._timings = timings
        self._stack = contextlib.AsyncExitStack()
        self._kubelet: Kubelet

    async def open(self) -> None:
        """Start a kubelet of the API server's own minor."""
        self._kubelet = await make_kubelet(self._cluster, self.node, self._folder, Cards(), self._timings, self._stack)
        self.minor = self._kubelet.machine.minor
        self.plugin_folder = self._kubelet.plugin_folder
        self.pod_resources_socket = self._kubelet.pod_resources_socket
        await self._kubelet.start()

    async def close(self) -> None:
        """Stop it and take the Node away."""
        await self._kubelet.stop()
        with contextlib.suppress(ApiError):
            await self._cluster.api.delete(NODES, self.node)
        await self._stack.aclose()

    async def stop(self) -> None:
        await self._kubelet.stop(keep_containers=True)

    async def start(self) -> None:
        await self._kubelet.start()

    async def reboot(self) -> None:
        await self._kubelet.reboot()

    def lose_checkpoint(self) -> None:
        (self.plugin_folder / kubelet_devices.FILE_NAME).unlink()


async def make_kubelet(
    cluster: LocalCluster, node: str, folder: Path, cards: Cards, timings: Timings, stack: contextlib.AsyncExitStack
) -> Kubelet:
    """A kubelet of the API server's own minor, with an account that ``stack`` closes; not yet started."""
    plane = cluster.control_plane
    server = await cluster.api.request("GET", "/version")
    machine = Machine(node, version=f"v{server['major']}.{server['minor']}.0")
    account = await stack.enter_async_context(ApiClient.from_kubeconfig(plane.kubelet_kubeconfig(node)))
    return Kubelet(
        machine,
        folder,
        account,
        behaviours=Behaviours.load(),
        cards=cards,
        seed=node,
        clock=Clock().timestamp,
        timings=timings,
        tls=plane.kubelet_certificate(node, machine.address),
    )


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

        (told,) = await eventually(look, bool, f"{name}/{container} prints its ids")
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
