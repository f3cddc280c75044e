"""The seam: what a cluster is to the demo, to the end-to-end cases and to the load.

A dozen members, no more. Whatever else a case needs it gets through the API server, as a user would.
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

    async def kubeconfig_of(self, account: str) -> Path:
        """A kubeconfig with the rights of that ServiceAccount (``namespace/name``) and nothing more; "" an administrator's."""

    async def kill(self, program: str, node: str | None = None) -> None:
        """Kill a program (``extender``, or ``device_plugin`` of a node) without a word (SIGKILL)."""

    async def launch(self, program: str, node: str | None = None) -> None:
        """Start a program that was killed, and wait until it is ready."""

    async def restart_kubelet(self, node: str) -> None:
        """Restart a node's kubelet: its sockets are removed and made anew, its checkpoint stays."""

    def cards(self, node: str) -> list[dict[str, Any]]:
        """What the cards of a node hold: index, uuid, name, memory total and used in MiB, processes."""

    def describe_cards(self, node: str) -> str:
        """The same for people: what ``fake-nvml show`` prints, or ``nvidia-smi`` where the cards are real."""

    def log(self, program: str, node: str | None = None) -> str:
        """What a program has logged."""


def load_nodes(path: Path) -> list[NodeSpec]:
    """The nodes in a YAML file. Raises ClusterError that names the file and what is wrong in it."""
    try:
        document = yaml.safe_load(path.read_text())
        nodes = [NodeSpec(**entry) for entry in document["nodes"]]
    except (OSError, yaml.YAMLError, TypeError, KeyError) as error:
        raise ClusterError(f"{path}: not a list of nodes: {error}") from error
    if not nodes or len({node.name for node in nodes}) != len(nodes):
        raise ClusterError(f"{path}: needs at least one node, and names that differ")
    return nodes
