"""A cluster on this machine: kubelet stand-ins and the programs under test around a control plane, embedded or real.

Everything lies in one short temporary folder (paths of unix sockets hold 107 bytes at most) and listens on loopback. Simulated
are the machines, the containers and the cards. Real are HTTP, gRPC, pynvml, the programs under test, each with
the rights of its own ServiceAccount; and the control plane if it is the real one.
"""

from __future__ import annotations

import asyncio
import contextlib
import operator
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from clusters.api import admission_policies, exchanges, readiness
from clusters.api.api_client import ApiClient
from clusters.api.certificates import KeyPair
from clusters.api.readiness import announce_cards, announces_cards, is_up
from clusters.api.waiting import all_or_none, eventually
from clusters.clock import Clock
from clusters.file_names import file_name
from clusters.images.behaviour import Behaviours
from clusters.kubelet.kubelet import Kubelet
from clusters.kubelet.kubelet_cards import Cards, RealCards
from clusters.kubelet.machine import Machine, Timings
from clusters.processes.program import Program
from clusters.processes.scratch import free_port, scratch_folder
from clusters.provider import DEVICE_PLUGIN, EXTENDER, KUBELET, ClusterError, NodeSpec
from clusters.real_node import BOX as REAL
from clusters.real_node import RealNode
from clusters.simulated_node import SimulatedNode, environment_of_programs, new_cards
from clusters.targets import Target


class ControlPlane(Protocol):
    """API server, controllers and scheduler on loopback."""

    url: str
    """Where the API server is, after ``start``."""
    kubeconfig: Path
    """An administrator's; the file is whole once it is there."""

    async def start(self, *, controllers: bool = True) -> None:
        """Start the API server, and the controllers unless they are turned off. Raises ClusterError."""

    async def stop(self) -> None:
        """End all of it."""

    async def start_scheduler(self, configuration: Mapping[str, Any]) -> None:
        """Start the scheduler with this KubeSchedulerConfiguration; its cache is filled. Raises ClusterError."""

    async def stop_scheduler(self) -> None:
        """End the scheduler."""

    async def compact(self) -> None:
        """Forget the history of all objects, as a real cluster does every five minutes."""

    async def restart_api_server(self) -> None:
        """End the API server and start it again at its address, over the same objects; its memory of changes is gone."""

    def kubelet_kubeconfig(self, node: str) -> Path:
        """A kubeconfig with which a kubelet is that node to the API server."""

    def kubelet_certificate(self, node: str, address: str) -> tuple[Path, Path] | None:
        """Certificate and key with which a kubelet serves logs to the API server; None if it is asked in plain HTTP."""

    def client_certificate(self, user: str, group: str | None, expires: datetime | None = None) -> KeyPair:
        """A certificate that makes its holder that user of that group to the API server."""

    async def token_kubeconfig(self, path: Path, namespace: str, account: str, pod: str = "") -> Path:
        """Write a kubeconfig with a token of that ServiceAccount, bound to ``pod`` if one is named, and nothing more."""

    def log(self, program: str) -> str:
        """The log of one of its programs; "" if it has none of that name."""


class LocalCluster:
    """One cluster (the seam is ``clusters.provider.Cluster``); ``control_plane`` makes one that works in a folder."""

    def __init__(
        self,
        control_plane: Callable[[Path], ControlPlane],
        nodes: Sequence[NodeSpec],
        target: Target,
        environment: Mapping[str, str],
        *,
        clock: Clock | None = None,
        announce: Callable[[Path], None] = lambda _: None,
    ) -> None:
        """``announce`` is called with the kubeconfig as soon as the API server answers, long before ``start`` is done."""
        self._clock = clock or Clock()
        self._announce = announce
        self._make_control_plane = control_plane
        self._nodes = {node.name: node for node in nodes}
        self._target = target
        self._environment = environment_of_programs(environment)
        self._stack = contextlib.AsyncExitStack()
        self._folder = Path()
        self._port = 0
        self._equipped: dict[str, SimulatedNode | RealNode] = {}
        self._kubelets: dict[str, Kubelet] = {}
        self._programs: dict[tuple[str, str | None], Program] = {}
        self.control_plane: ControlPlane
        self.kubeconfig = Path()
        self.api: ApiClient

    async def start(self) -> None:
        """Bring it up; see the seam."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        self._folder = self._stack.enter_context(scratch_folder())
        await self._start_control_plane()
        await self._grant()
        for node in self._nodes.values():
            await self._start_node(node)
        self._port = free_port()
        arguments = {name: self._target.spelt(node).plugin_arguments for name, node in self._nodes.items()}
        exchanges.pass_on(exchanges.Begun(self._server, self.extender_url(), self._target.users, arguments))
        plugins = (self._equip(name) for name in self._nodes if self._has_cards(name))
        extenders = (self.launch(EXTENDER) for _ in self._target.programs & {EXTENDER})
        await all_or_none(*extenders, *plugins)
        await self._start_scheduler()

    async def stop(self) -> None:
        """End the programs first, then what they talk to; see the seam."""
        await asyncio.gather(*(program.stop() for program in self._programs.values()))
        await self._stack.aclose()

    @property
    def _server(self) -> str:
        """Host and port of the API server."""
        return self.control_plane.url.partition("://")[2]

    def extender_url(self) -> str:
        """See the seam."""
        known = self._target.extender_or_none
        return f"http://127.0.0.1:{self._port}{known.path if known is not None else ''}"

    async def kubeconfig_of(self, account: str, node: str = "") -> Path:
        """See the seam."""
        if not account:
            return self.kubeconfig
        namespace, _, name = account.partition("/")
        pod = await readiness.ensure(self.api, account, node) if node else ""
        path = self._folder / f"{file_name(f'{name}-{node}' if node else name)}.kubeconfig"
        if path.exists() and not pod:
            return path
        return await self.control_plane.token_kubeconfig(path, namespace, name, pod)

    async def kill(self, program: str, node: str | None = None) -> None:
        """See the seam."""
        if program == KUBELET and node is not None:
            await self._kubelets[node].stop(keep_containers=True)
            return
        await self._programs[program, node].kill()
        if program == DEVICE_PLUGIN and node is not None:
            # Until the node shows it, pods would still be sent there, and a launch would find the old numbers.
            await eventually(
                lambda: self._announces_cards(node), operator.not_, f"{node} shows that its plugin is gone"
            )

    async def launch(self, program: str, node: str | None = None) -> None:
        """See the seam."""
        key = (program, node)
        if program == EXTENDER:
            if key not in self._programs:
                self._programs[key] = await self._extender()
            await self._programs[key].launch(self._extender_is_ready)
            return
        if node not in self._nodes:
            raise ClusterError(f"there is no node {node!r} to launch {program} on")
        if program == KUBELET:
            await self._kubelets[node].start()
            await self._replace_plugin(node)
            return
        # At each launch: the pod that the last token was bound to may have been deleted with its Node.
        account = await self.kubeconfig_of(self._target.device_plugin.account, node)
        if key not in self._programs:
            arguments = self._target.spelt(self._nodes[node]).plugin_arguments
            self._programs[key] = self._equipped[node].device_plugin(self._target, account, arguments)
        may_be_none = self._equipped[node].has_unknown_memory()
        await self._programs[key].launch(lambda: self._announces_cards(node, may_be_none=may_be_none))

    async def restart_kubelet(self, node: str, *, reboot: bool = False, lose_checkpoint: bool = False) -> None:
        """See the seam."""
        kubelet = self._kubelets[node]
        if not reboot:
            await kubelet.restart(lose_checkpoint=lose_checkpoint)
            await self._replace_plugin(node)
            return
        plugin = self._programs.get((DEVICE_PLUGIN, node))
        if plugin is not None:
            await plugin.kill()
            await self.fake_nvml(node, "reboot")
        await kubelet.reboot(lose_checkpoint=lose_checkpoint)
        if plugin is not None:
            await self.launch(DEVICE_PLUGIN, node)

    def cards(self, node: str) -> list[dict[str, Any]]:
        """See the seam."""
        return self._node(node).cards()

    async def fake_nvml(self, node: str, *arguments: str) -> str:
        """See the seam."""
        exchanges.pass_on(exchanges.Injected(time.monotonic(), self._node(node).folder, arguments))
        return await self._node(node).fake_nvml(*arguments)

    def kubelet_folder(self, node: str) -> Path:
        """See the seam."""
        return self._node(node).folder

    def nvml_state(self, node: str) -> Path:
        """See the seam."""
        return self._node(node).state_file

    @contextlib.contextmanager
    def standing_still(self, kind: str) -> Iterator[None]:
        """The target's programs of this kind are stopped while inside."""
        programs = [program for (its_kind, _), program in self._programs.items() if its_kind == kind]
        for program in programs:
            program.send(signal.SIGSTOP)
        try:
            yield
        finally:
            exchanges.pass_on(exchanges.StoodStill(time.monotonic(), self._server))
            for program in programs:
                program.send(signal.SIGCONT)

    def log(self, program: str, node: str | None = None) -> str:
        """See the seam."""
        known = self._programs.get((program, node))
        return known.log() if known is not None else ""

    async def _start_control_plane(self) -> None:
        folder = self._folder / "control-plane"
        folder.mkdir()
        self.control_plane = self._make_control_plane(folder)
        self._stack.callback(lambda: exchanges.pass_on(exchanges.Ended(self._server)))
        self._stack.push_async_callback(self.control_plane.stop)
        await self.control_plane.start()
        self.kubeconfig = self.control_plane.kubeconfig
        self._announce(self.kubeconfig)
        self.api = await self._stack.enter_async_context(ApiClient.from_kubeconfig(self.kubeconfig))

    async def _grant(self) -> None:
        """Create the target's ServiceAccounts and what these may do."""
        for manifest in self._target.role_manifests():
            await self.api.create(manifest)
        await admission_policies.install(self.api, self._target.policy_manifests(), self._target.policy_probe)

    async def _start_node(self, node: NodeSpec) -> None:
        # The folder's sockets have names of up to 40 characters with their own folder, and their whole path 107 at most.
        folder = self._folder / file_name(node.name, 40)
        folder.mkdir()
        cards = self._cards_of(node, folder)
        # Its kubelets are of the release of the control plane (``v1.36.3``).
        release: dict[str, str] = await self.api.request("GET", "/version")
        machine = Machine(
            node.name,
            cpu=node.cpu,
            memory=node.memory,
            pods=node.pods,
            labels=self._labels(node),
            version=release["gitVersion"].partition("+")[0],
        )
        account = ApiClient.from_kubeconfig(self.control_plane.kubelet_kubeconfig(node.name))
        kubelet = Kubelet(
            machine,
            folder,
            await self._stack.enter_async_context(account),
            behaviours=Behaviours.load(),
            cards=cards,
            seed=node.name,
            clock=self._clock.timestamp,
            timings=replace(Timings().at_speed(self._clock.factor), admission_shuffle=node.admission_shuffle),
            tls=self.control_plane.kubelet_certificate(node.name, machine.address),
            limits=node.memory_limits,
        )
        await kubelet.start()
        self._stack.push_async_callback(kubelet.stop)
        self._kubelets[node.name] = kubelet

    def _cards_of(self, node: NodeSpec, folder: Path) -> Cards | RealCards:
        """The cards of a new node, as its kubelet gets them. Raises ClusterError."""
        if node.box == REAL:
            real = self._equipped[node.name] = RealNode(node.name, folder, self._environment)
            return RealCards(real.look, self._environment)
        simulated = self._equipped[node.name] = SimulatedNode(node.name, folder, self._environment)
        state = new_cards(simulated.state_file, node)
        self._stack.callback(state.close)
        return Cards(state if self._has_cards(node.name) else None)

    async def _start_scheduler(self) -> None:
        """The target's configuration, with the extender's present address."""
        await self.control_plane.start_scheduler(self._target.scheduler_configuration(self.extender_url()))

    async def _equip(self, node: str) -> None:
        """Start the node's plugin; if the target has none, write what one announces, for an extender alone."""
        if DEVICE_PLUGIN in self._target.programs:
            await self.launch(DEVICE_PLUGIN, node)
            return
        await announce_cards(self.api, node, self.cards(node))

    def _node(self, node: str) -> SimulatedNode | RealNode:
        if node not in self._equipped:
            raise ClusterError(f"there is no node {node!r}")
        return self._equipped[node]

    def _has_cards(self, node: str) -> bool:
        return self._nodes[node].box != "none"

    def _labels(self, node: NodeSpec) -> dict[str, str]:
        """The label by which the manifests place the device plugin, on nodes that have cards."""
        return {**({"gpushare": "true"} if self._has_cards(node.name) else {}), **node.labels}

    async def _extender(self) -> Program:
        account = await self.kubeconfig_of(self._target.extender.account)
        argv, environment = self._target.extender.command(port=str(self._port), kubeconfig=str(account))
        return Program(EXTENDER, argv, {**self._environment, **environment}, self._folder / "extender.log")

    async def _replace_plugin(self, node: str) -> None:
        """Start the plugin again if its pod was deleted: a kubelet ends the containers of such a pod, a DaemonSet makes another."""
        plugin = self._programs.get((DEVICE_PLUGIN, node))
        if plugin is None or plugin.pid is None:
            return
        account = self._target.device_plugin.account
        if account and not await readiness.find(self.api, account, node):
            await self.kill(DEVICE_PLUGIN, node)
            await self.launch(DEVICE_PLUGIN, node)

    async def _extender_is_ready(self) -> bool:
        return await is_up(f"http://127.0.0.1:{self._port}", self._target.extender.ready)

    async def _announces_cards(self, node: str, *, may_be_none: bool = False) -> bool:
        return await announces_cards(self.api, node, self._target.device_plugin.resource, may_be_none=may_be_none)
