"""Our kubelet for one case: a node of its own beside those of the cluster, with waits that a case may scale."""

from __future__ import annotations

import contextlib
from pathlib import Path

from clusters.api.api_client import ApiClient, ApiError
from clusters.api.resources import NODES
from clusters.clock import Clock
from clusters.images.behaviour import Behaviours
from clusters.kubelet import kubelet_devices
from clusters.kubelet.kubelet import Kubelet
from clusters.kubelet.kubelet_cards import Cards
from clusters.kubelet.machine import Machine, Timings
from clusters.local_cluster import LocalCluster


class StandIn:
    """Its sockets are in ``folder``, which is short. Each member is as ``Worker`` has it."""

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
