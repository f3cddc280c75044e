"""Programs that no image of ours holds, as processes of this machine beside the nodes: for targets by other hands.

A device plugin works in the folders of its node, which lie on this machine, and on the node's simulated cards. The extender runs
in the network of the control plane's node: the scheduler asks it on the loopback there, and nothing else reaches it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from clusters.api import kubeconfig_file
from clusters.api.api_client import ApiClient
from clusters.api.readiness import announce_cards, announces_cards
from clusters.api.waiting import all_or_none
from clusters.kind import product
from clusters.kind.workers import NodeContainer, Workers, docker
from clusters.processes.program import Program
from clusters.provider import DEVICE_PLUGIN, EXTENDER, ClusterError
from clusters.targets import Target

# Inside the node of a control plane; kind's certificate names it.
_API_SERVER: Final = "https://127.0.0.1:6443"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The cluster, as far as its programs need it."""

    workers: Workers
    api: ApiClient
    environment: Mapping[str, str]
    """With which Docker is reached, and programs are found."""
    folder: Path
    kubeconfig_of: Callable[..., Awaitable[Path]]
    """As ``clusters.provider.Cluster`` has it."""
    arguments_of: Callable[[str], Sequence[str]]
    """The words of a node's device plugin beside the target's own."""
    extender_is_up: Callable[[], Awaitable[bool]]


class HostPrograms:
    """The extender, and the device plugin of each node, as ``deployed_programs.DeployedPrograms`` has them."""

    def __init__(self, target: Target, surroundings: Surroundings) -> None:
        self._target = target
        self._around = surroundings
        self._programs: dict[str, Program] = {}

    async def start(self, nodes: Iterable[str]) -> None:
        """Bring up all of them; ``nodes`` are those with cards."""
        extenders = (self.start_extender() for _ in self._target.programs & {EXTENDER})
        await all_or_none(*extenders, *(self.equip(node) for node in nodes))

    async def equip(self, node: str) -> None:
        """Start the node's plugin; for an extender without one, write what it announces."""
        if DEVICE_PLUGIN in self._target.programs:
            await self.start_plugin(node)
        elif EXTENDER in self._target.programs:
            await announce_cards(self._around.api, node, self._around.workers.simulated(node).cards())

    async def start_extender(self) -> None:
        """Bring it up, or back."""
        if EXTENDER not in self._programs:
            self._programs[EXTENDER] = await self._extender()
        await self._programs[EXTENDER].launch(self._around.extender_is_up)

    async def kill_extender(self) -> None:
        """SIGKILL; it stays down."""
        await self._programs[EXTENDER].kill()

    async def start_plugin(self, node: str) -> None:
        """Bring it up, or back."""
        around, plugin = self._around, self._target.device_plugin
        # At each start: the pod that the last token was bound to may have been deleted with its Node.
        account = await around.kubeconfig_of(plugin.account, node)
        simulated = around.workers.simulated(node)
        if node not in self._programs:
            self._programs[node] = simulated.device_plugin(self._target, account, around.arguments_of(node))
        may_be_none = simulated.has_unknown_memory()
        await self._programs[node].launch(
            lambda: announces_cards(around.api, node, plugin.resource, may_be_none=may_be_none)
        )

    async def kill_plugin(self, node: str) -> None:
        """SIGKILL; it stays down."""
        await self._programs[node].kill()

    @contextlib.asynccontextmanager
    async def rebooting(self, node: str) -> AsyncIterator[None]:
        """While inside the machine restarts, and its plugin ends with it."""
        plugin = self._programs.get(node)
        was_up = plugin is not None and plugin.pid is not None
        if was_up:
            await self.kill_plugin(node)
        yield
        if was_up:
            await self.start_plugin(node)

    async def stop(self) -> None:
        """End all of them."""
        for program in self._programs.values():
            await program.stop()

    def log(self, node: NodeContainer, workload: str) -> str:
        """The log of a node's device plugin, or of the extender."""
        known = self._programs.get(node.node if workload == product.DEVICE_PLUGIN else EXTENDER)
        return known.log() if known is not None else ""

    async def _extender(self) -> Program:
        around, extender = self._around, self._target.extender
        account = await around.kubeconfig_of(extender.account)
        inside = around.folder / "extender.kubeconfig"
        kubeconfig_file.write_parts(inside, *seen_inside(yaml.safe_load(account.read_text())))
        argv, environment = extender.command(port=str(product.EXTENDER_PORT), kubeconfig=str(inside))
        container = around.workers.container(around.workers.control_plane).container
        starter = network_of(int(await docker(around.environment, "inspect", "--format", "{{.State.Pid}}", container)))
        return Program(
            EXTENDER, [*starter, *argv], {**around.environment, **environment}, around.folder / "extender.log"
        )


def network_of(pid: int) -> list[str]:
    """The words before a program that give it the network of a process. Raises ClusterError if this user may not."""
    network = Path(f"/proc/{pid}/ns/net")
    if os.geteuid() != 0 or not network.exists():
        raise ClusterError(
            "provider kind: an extender that is in no image of ours is started in the network of the control plane's node, "
            "which takes root and a Docker on this machine"
        )
    return ["nsenter", f"--net={network}", "--"]


def seen_inside(kubeconfig: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Cluster and user of a kubeconfig, with the API server's address inside its own node."""
    (cluster,), (user,) = kubeconfig["clusters"], kubeconfig["users"]
    return {**cluster["cluster"], "server": _API_SERVER}, user["user"]
