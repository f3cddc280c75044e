"""The workers of a cluster as this machine sees them: their folders and simulated cards here, their containers."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from clusters.kind.kind_config import NODE_FOLDERS, Worker, container_of_control_plane, containers_of_workers
from clusters.kind.node_container import NodeContainer
from clusters.kind.product import PLUGIN_LABEL, PluginSet
from clusters.provider import ClusterError, NodeSpec
from clusters.simulated_node import SimulatedNode
from fake_nvml.box import Box
from fake_nvml.fake_nvml_errors import FakeNvmlError
from fake_nvml.state import State

_LOG = logging.getLogger(__name__)

# As the manifests name it inside a node's folder of simulated cards.
_STATE_FILE: Final = "state"


class Workers:
    """The workers of ``cluster``; each has a folder of its own in ``folder``, which is short enough for unix sockets."""

    def __init__(self, cluster: str, folder: Path, environment: Mapping[str, str], sets: Sequence[PluginSet]) -> None:
        self._cluster = cluster
        self._folder = folder
        self._environment = environment
        self._simulated: dict[str, SimulatedNode] = {}
        self._containers: dict[str, NodeContainer] = {}
        self.sets: dict[str, str] = {}
        """Which DaemonSet has a node; nodes without cards are in none."""
        self.assign(sets)
        self.control_plane = container_of_control_plane(cluster)

    def assign(self, sets: Sequence[PluginSet]) -> None:
        """Say which DaemonSets there are."""
        self.sets.update({node: one.name for one in sets for node in one.nodes})

    def prepare(self, nodes: Iterable[NodeSpec]) -> list[Worker]:
        """Make their folders and cards. Raises ClusterError for a box that is not there."""
        return [self._prepare(node) for node in nodes]

    def names(self) -> list[str]:
        """Their Nodes, in the order in which they were prepared, which is kind's."""
        return list(self._simulated)

    def folder(self, node: str) -> Path:
        """Where this machine has a node's folders (``kind_config.NODE_FOLDERS``)."""
        return self.simulated(node).folder

    def simulated(self, node: str) -> SimulatedNode:
        """The cards of a node. Raises ClusterError for one that is no worker."""
        if node not in self._simulated:
            raise ClusterError(f"there is no node {node!r} with simulated cards")
        return self._simulated[node]

    def container(self, node: str) -> NodeContainer:
        """The container of a node, the control plane's too. Raises ClusterError for one that is not there."""
        containers = {
            self.control_plane: self.control_plane,
            **containers_of_workers(self._cluster, self.names()),
        }
        if node not in containers:
            raise ClusterError(f"there is no node {node!r}; there is: {', '.join(containers)}")
        if node not in self._containers:
            self._containers[node] = NodeContainer(node, containers[node], self._environment, self.logs(node))
        return self._containers[node]

    def logs(self, node: str) -> Path:
        """Where this machine has the logs of a node's pods, the control plane's too."""
        return self._folder / node / "logs"

    def _prepare(self, node: NodeSpec) -> Worker:
        folder = self._folder / node.name
        for name in NODE_FOLDERS:
            (folder / name).mkdir(parents=True)
        state_file = folder / "nvml" / _STATE_FILE
        try:
            State.create(state_file, Box.load(node.box, seed=node.name, driver=node.driver)).close()
        except FakeNvmlError as error:
            raise ClusterError(f"node {node.name}: {error}") from error
        if node.admission_shuffle:
            _LOG.warning(
                "a real kubelet admits pods in its own order; admission_shuffle is passed over node=%s", node.name
            )
        self._simulated[node.name] = SimulatedNode(node.name, folder, self._environment, state_file)
        return Worker(node.name, folder, self._labels(node))

    def _labels(self, node: NodeSpec) -> dict[str, str]:
        """The manifests' label for nodes with cards, and ours for the plugin of a node."""
        plugin = self.sets.get(node.name)
        return {**({"gpushare": "true", PLUGIN_LABEL: plugin} if plugin else {}), **node.labels}
