"""The seam: what a cluster is to the demo, to the end-to-end cases and to the load.

A dozen members and three, no more. Whatever else a case needs it gets through the API server, as a user would.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import yaml

from clusters.api_client import ApiClient


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node to make: its cards (a box of fake_nvml, by name or file), and what the kubelet says of the machine."""

    name: str
    box: str = "none"
    driver: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    cpu: str = "16"
    memory: str = "64Gi"
    pods: str = "110"
    plugin_arguments: tuple[str, ...] = ()
    """What the node's device plugin is told beyond the target's own words; words in braces are filled in, as there."""
    admission_shuffle: float = 0.0
    """Where the kubelet is a stand-in: equal pods that are bound within so many seconds are admitted in any order."""


class ClusterError(Exception):
    """A cluster that cannot be made or does not do what it should; says what, where, and what to do."""


class Cluster(Protocol):
    """One running cluster."""

    kubeconfig: Path
    """An administrator's; the file is complete once it exists."""
    api: ApiClient
    """A connection to its API server."""

    async def start(self) -> None:
        """Bring it up, ready to schedule pods onto cards. Raises ClusterError, and then leaves nothing behind."""

    async def stop(self) -> None:
        """End everything that ``start`` started."""

    def extender_url(self) -> str:
        """Where the extender's verbs are, as the scheduler calls them."""

    async def kubeconfig_of(self, account: str, node: str = "") -> Path:
        """A kubeconfig with the rights of that ServiceAccount (``namespace/name``) and nothing more; "" an administrator's.

        With ``node``, its token is bound to a pod of that account on that node, as a DaemonSet's program has it; the pod is
        created if there is none. A token of a pod that has been deleted is replaced: the file is written at each call.
        """

    async def kill(self, program: str, node: str | None = None) -> None:
        """Kill a program (``extender``, or ``device_plugin`` or ``kubelet`` of a node) without a word (SIGKILL); it stays down.

        A kubelet's containers run on.
        """

    async def launch(self, program: str, node: str | None = None) -> None:
        """Start a program that was killed, and wait until it is ready."""

    async def restart_kubelet(self, node: str, *, reboot: bool = False, lose_checkpoint: bool = False) -> None:
        """Restart a node's kubelet: its sockets are removed and made anew, its checkpoint stays unless it is to be lost.

        ``reboot`` restarts the machine: containers end, the boot id is another, the cards and the device plugin start anew.
        """

    async def add_node(self, node: NodeSpec) -> None:
        """A machine that joins the running cluster; returns when it takes pods, onto its cards too. Raises ClusterError."""

    def cards(self, node: str) -> list[dict[str, Any]]:
        """What the cards of a node hold: index, uuid, name, memory total and used in MiB, processes."""

    async def fake_nvml(self, node: str, *arguments: str) -> str:
        """What the command ``fake-nvml`` with these arguments prints on that node: ``show`` the cards, or change them.

        Raises ClusterError with its error; where the cards are real, for all but ``show``, which nvidia-smi answers.
        """

    def kubelet_folder(self, node: str) -> Path:
        """Where this machine has the folders ``device-plugins`` and ``pod-resources`` of a node's kubelet, with their sockets.

        Raises ClusterError for a node that has them on another machine.
        """

    def nvml_state(self, node: str) -> Path:
        """The state file of a node's simulated cards, for the command ``fake-nvml`` on this machine. Raises ClusterError."""

    def log(self, program: str, node: str | None = None) -> str:
        """What a program has logged."""


def load_nodes(path: Path) -> list[NodeSpec]:
    """The nodes in a YAML file. Raises ClusterError that names the file and what is wrong in it."""
    try:
        document = yaml.safe_load(path.read_text())
        nodes = [_node(entry) for entry in document["nodes"]]
    except (OSError, yaml.YAMLError, TypeError, KeyError) as error:
        raise ClusterError(f"{path}: not a list of nodes: {error}") from error
    if not nodes or len({node.name for node in nodes}) != len(nodes):
        raise ClusterError(f"{path}: needs at least one node, and names that differ")
    return nodes


def _node(entry: dict[str, Any]) -> NodeSpec:
    arguments = entry.get("plugin_arguments", [])
    if not isinstance(arguments, list):
        raise TypeError("plugin_arguments must be a list of words")
    return NodeSpec(**{**entry, "plugin_arguments": tuple(map(str, arguments))})
