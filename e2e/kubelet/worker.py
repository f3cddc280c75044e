"""The kubelet of one of the cluster's own nodes, a real one if the cluster has such: nothing scaled, and it was there before.

The device plugin under test stays on the node: a case has a resource of its own, and the plugin comes back after
each restart, as it must.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import grpc.aio

from clusters.api.resources import NODES
from clusters.api.waiting import eventually
from clusters.kind.kind_cluster import KindCluster
from clusters.provider import Cluster
from e2e.kubelet.sample_plugin import pods_listed

_KUBELET: Final = "kubelet"
_CHECKPOINT: Final = "kubelet_internal_checkpoint"
_CDI_FOLDER: Final = "/etc/cdi"


class Worker:
    """One node's kubelet, up between ``open`` and ``close``.

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
