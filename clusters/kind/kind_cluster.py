"""A cluster of real kubelets in containers, made by kind: our programs as pods of the manifests that we ship, others beside them.

The cards are simulated. Everything of a run lies in one short temporary folder, each worker's folders for device plugins and
its cards too, so that both can be reached from this machine. Ports are on loopback only, and the user's kubeconfig is never opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import operator
import os
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from clusters.api import admission_policies, kubeconfig_file, readiness
from clusters.api.api_client import ApiClient
from clusters.api.readiness import announces_cards, answers, says_ready
from clusters.api.resources import PODS
from clusters.api.waiting import NotReachedError, all_or_none, eventually, glimpse
from clusters.deploy import render
from clusters.kind import kind_config, product
from clusters.kind.deployed_programs import DeployedPrograms, ExtenderPortForward, PodsLog
from clusters.kind.engine.engine import using
from clusters.kind.equipment import Equipment, find
from clusters.kind.host_programs import HostPrograms, Surroundings
from clusters.kind.kind_nodes import KindNodes
from clusters.kind.sweeping import RunRecord, containers_of, folder_of_runs, record, remove_containers, sweep
from clusters.kind.workers import WorkerKubelet, Workers, is_ready, thawing
from clusters.processes.program import LAUNCHED
from clusters.processes.running_clusters import CHECKOUT
from clusters.processes.scratch import scratch_folder
from clusters.provider import DEVICE_PLUGIN, EXTENDER, KUBELET, ClusterError, NodeSpec
from clusters.targets import SCHEDULER_CONFIG, Target

# Against hangs only, in seconds: images are unpacked, programs start, kubelets tell.
_READY_SECONDS: Final = 180.0


class KindCluster:
    """One cluster (the seam is ``clusters.provider.Cluster``): one control plane, and a worker for each node of the list.

    A worker has the cards, driver and labels of its NodeSpec, and the processors and memory of this machine.
    """

    workers: Workers
    """Its workers as this machine sees them, for cases about kubelets."""
    api: ApiClient
    _equipment: Equipment
    _manifests: Sequence[dict[str, Any]]
    """As shipped, with this run's images; none if the images do not hold the target's programs."""
    _programs: DeployedPrograms | HostPrograms
    _door: ExtenderPortForward
    _logs: list[PodsLog]
    """Of the pods that the session's first nodes have."""

    def __init__(
        self,
        nodes: Sequence[NodeSpec],
        target: Target,
        environment: Mapping[str, str],
        minor: str,
        *,
        node_image: str = "",
        image_base: str = "",
        announce: Callable[[Path], None] = lambda _: None,
    ) -> None:
        """``minor`` is that of Kubernetes, ``1.36``; images are as in ``providers.Choices``.

        ``announce`` is called with the kubeconfig as soon as the API server answers.
        """
        self._nodes = [target.spelt(node) for node in nodes]
        self._target = target
        self._is_deployed = product.is_in_images(target)
        self._announce = announce
        self._environment = environment
        self._find = partial(find, minor, environment, sys.stderr, node_image_name=node_image, image_base=image_base)
        self._stack = contextlib.AsyncExitStack()
        self._folder = Path()
        self._name = ""
        self.kubeconfig = Path()

    async def start(self) -> None:
        """Bring it up; see the seam."""
        try:
            await self._make()
            await self._settle()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """See the seam."""
        await self._stack.aclose()

    async def _make(self) -> None:
        """Start nodes and programs; each step gives the stack the call that undoes it."""
        try:
            # Until the nodes are gone again, no `down` ends the Docker.
            self._stack.enter_context(using(self._environment, "a kind cluster"))
        except ClusterError as error:
            raise ClusterError(f"provider kind: {error}") from error
        self._equipment = await asyncio.to_thread(self._find)
        environment = self._equipment.environment
        self._folder = self._stack.enter_context(scratch_folder())
        self._name = await self._take_name()
        # Which nodes get a device plugin, by its arguments.
        sets = product.plugin_sets(self._nodes) if DEVICE_PLUGIN in self._target.programs else []
        self.workers = Workers(self._name, self._folder / "n", environment, sets)
        self._manifests = await self._shipped() if self._is_deployed else ()
        await self._create_nodes()
        self._announce(self.kubeconfig)
        self.api = await self._stack.enter_async_context(ApiClient.from_kubeconfig(self.kubeconfig))
        await self._import_images(self.workers.control_plane, *self.workers.names())
        deployed = product.fitted(self._manifests, self._target, sets) if self._is_deployed else []
        for manifest in deployed or self._target.role_manifests():
            await self.api.create(manifest)
        await admission_policies.install(self.api, self._target.policy_manifests(), self._target.policy_probe)
        log = self._folder / "port-forward.log"
        self._door = ExtenderPortForward(
            self._equipment.kubectl, self.kubeconfig, self.workers.control_plane, environment, log
        )
        if EXTENDER in self._target.programs:
            await self._stack.enter_async_context(self._door.open())
        if self._is_deployed:
            programs = DeployedPrograms(self.api, self.workers.container, self.workers.sets, self._folder)
            self._programs, self._logs = programs, self._logs_of(programs)
            LAUNCHED.update(self._logs)
        else:
            self._programs = HostPrograms(self._target, self._surroundings())
            self._stack.push_async_callback(self._programs.stop)

    def _logs_of(self, programs: DeployedPrograms) -> list[PodsLog]:
        plugins = ((f"device plugin of {node}", node, product.DEVICE_PLUGIN) for node in self.workers.sets)
        extender = (EXTENDER, self.workers.control_plane, product.EXTENDER)
        return [
            programs.log_of(name, self.workers.container(node), workload)
            for name, node, workload in (extender, *plugins)
        ]

    def _surroundings(self) -> Surroundings:
        return Surroundings(
            workers=self.workers,
            api=self.api,
            environment=self._equipment.environment,
            folder=self._folder,
            kubeconfig_of=self.kubeconfig_of,
            arguments_of=lambda name: next(node.plugin_arguments for node in self._nodes if node.name == name),
            extender_is_up=self._extender_is_up,
        )

    async def _take_name(self) -> str:
        """A free name, recorded as in use; the leftovers of killed runs are removed first."""
        environment = self._equipment.environment
        runs = folder_of_runs(environment)
        await sweep(runs, environment)
        name = f"{kind_config.PREFIX}{secrets.token_hex(4)}"
        run = RunRecord(name, environment.get("DOCKER_HOST", ""), os.getpid(), CHECKOUT)
        self._stack.enter_context(record(runs, run))
        return name

    async def _shipped(self) -> list[dict[str, Any]]:
        """The manifests that we ship for kind, with this run's images."""
        images = {
            render.EXTENDER_IMAGE: self._equipment.images.extender,
            render.SIMULATED_IMAGE: self._equipment.images.device_plugin_simulated,
        }
        return await render.render(self._equipment.kubectl, render.OVERLAY_KIND, images=images)

    async def _create_nodes(self) -> None:
        equipment, written_by_kind = self._equipment, self._folder / "kind.kubeconfig"
        config = kind_config.write_config(
            self._folder,
            self._name,
            equipment.node_image,
            self.workers.prepare(self._nodes),
            equipment.archive.parent,
            self.workers.logs(self.workers.control_plane),
            equipment.container_specification,
            SCHEDULER_CONFIG.read_text() if self._is_deployed else product.scheduler_of(self._target),
        )
        nodes = KindNodes(config, written_by_kind, equipment.environment)
        # After the other: what came while kind was being ended.
        self._stack.push_async_callback(remove_containers, self._name, equipment.environment)
        self._stack.push_async_callback(self._delete, nodes)
        await nodes.create_nodes()
        self.kubeconfig = adopt(written_by_kind, self._folder / "kubeconfig")

    async def _delete(self, nodes: KindNodes) -> None:
        async with thawing(await containers_of(self._name, self._equipment.environment)):
            await nodes.delete_nodes()

    async def _import_images(self, *nodes: str) -> None:
        """Into the stores of these nodes, in parallel; the folder of the archive is handed in to each."""
        inside = f"{kind_config.HANDED_IN}/{self._equipment.archive.name}"
        await all_or_none(*(self.workers.container(node).import_images(inside) for node in nodes))

    async def _settle(self) -> None:
        """Wait until pods can be scheduled onto cards."""
        plugins = (self._plugin_is_ready(node) for node in self.workers.sets)
        try:
            await all_or_none(*(self._node_is_ready(node) for node in self.workers.names()))
            if isinstance(self._programs, HostPrograms):
                await self._programs.start(node.name for node in self._nodes if node.box != "none")
            await all_or_none(*plugins, self._extender_is_ready())
        except NotReachedError as error:
            pods = glimpse(await self.api.list(PODS, product.NAMESPACE))
            raise ClusterError(f"{error}\n{pods}\n{self._door.log()}") from error

    def extender_url(self) -> str:
        """See the seam."""
        known = self._target.extender_or_none
        return f"http://127.0.0.1:{self._door.port}{known.path if known is not None else ''}"

    async def kubeconfig_of(self, account: str, node: str = "") -> Path:
        """See the seam."""
        if not account:
            return self.kubeconfig
        namespace, _, name = account.partition("/")
        pod = await readiness.ensure(self.api, account, node) if node else ""
        path = self._folder / f"{name}{node and '-' + node}.kubeconfig"
        if path.exists() and not pod:
            return path
        token = await readiness.service_account_token(self.api, namespace, name, pod)
        cluster = yaml.safe_load(self.kubeconfig.read_text())["clusters"][0]["cluster"]
        kubeconfig_file.write_parts(path, cluster, {"token": token})
        return path

    async def kill(self, program: str, node: str | None = None) -> None:
        """See the seam."""
        if program == EXTENDER:
            await self._programs.kill_extender()
        elif node is None:
            raise ClusterError(f"which node's {program}?")
        elif program == KUBELET:
            await self._kubelet(node).stop(kill=True)
        else:
            await self._programs.kill_plugin(node)
            await self._plugin_is_gone(node)

    async def launch(self, program: str, node: str | None = None) -> None:
        """See the seam."""
        if program == EXTENDER:
            await self._programs.start_extender()
            await self._extender_is_ready()
        elif node is None:
            raise ClusterError(f"which node's {program}?")
        elif program == KUBELET:
            await self._kubelet(node).start()
        else:
            await self._programs.start_plugin(node)
            await self._plugin_is_ready(node)

    async def restart_kubelet(self, node: str, *, reboot: bool = False, lose_checkpoint: bool = False) -> None:
        """See the seam."""
        kubelet = self._kubelet(node)
        if not reboot:
            await kubelet.stop(lose_checkpoint=lose_checkpoint)
            await kubelet.start()
            return
        async with self._programs.rebooting(node):
            await kubelet.reboot(lose_checkpoint=lose_checkpoint)
        if node in self.workers.sets:
            await self._plugin_is_ready(node)

    def cards(self, node: str) -> list[dict[str, Any]]:
        """See the seam; the control plane's node has none."""
        return [] if node == self.workers.control_plane else self.workers.simulated(node).cards()

    async def fake_nvml(self, node: str, *arguments: str) -> str:
        """See the seam."""
        return await self.workers.simulated(node).fake_nvml(*arguments)

    def kubelet_folder(self, node: str) -> Path:
        """See the seam."""
        return self.workers.folder(node)

    def nvml_state(self, node: str) -> Path:
        """See the seam."""
        return self.workers.simulated(node).state_file

    def log(self, program: str, node: str | None = None) -> str:
        """See the seam."""
        if program == EXTENDER:
            return self._programs.log(self.workers.container(self.workers.control_plane), product.EXTENDER)
        return self._programs.log(self.workers.container(node or ""), product.DEVICE_PLUGIN)

    def _kubelet(self, node: str) -> WorkerKubelet:
        return WorkerKubelet(node, self.workers, self.api)

    async def _announces_cards(self, node: str, *, may_be_none: bool = False) -> bool:
        return await announces_cards(self.api, node, self._target.device_plugin.resource, may_be_none=may_be_none)

    async def _node_is_ready(self, node: str) -> None:
        await eventually(partial(is_ready, self.api, node), bool, f"{node} is ready", seconds=_READY_SECONDS)

    async def _plugin_is_ready(self, node: str) -> None:
        announces = partial(self._announces_cards, node, may_be_none=self.workers.simulated(node).has_unknown_memory())
        await eventually(announces, bool, f"{node} shows its cards", seconds=_READY_SECONDS)

    async def _plugin_is_gone(self, node: str) -> None:
        """Until the node shows it, pods would still be sent there, and a launch would find the old numbers."""
        announces = partial(self._announces_cards, node)
        try:
            await eventually(announces, operator.not_, f"{node} shows that its plugin is gone")
        except NotReachedError as error:
            log = await self.workers.container(node).device_plugin_log()
            raise NotReachedError(f"{error}; its kubelet logged:\n{log}") from error

    async def _extender_is_ready(self) -> None:
        if EXTENDER in self._target.programs:
            await eventually(self._extender_is_up, bool, "the extender is ready", seconds=_READY_SECONDS)

    async def _extender_is_up(self) -> bool:
        origin, ready = f"http://127.0.0.1:{self._door.port}", self._target.extender.ready
        # The door takes connections whether the extender does or not.
        return await (says_ready(origin + ready) if ready else answers(self.extender_url()))


def adopt(written_by_kind: Path, path: Path) -> Path:
    """Write kind's kubeconfig to ``path`` as our providers have theirs; a reader sees the whole file or none."""
    document = yaml.safe_load(written_by_kind.read_text())
    (cluster,), (user,) = document["clusters"], document["users"]
    kubeconfig_file.write_parts(path, cluster["cluster"], user["user"])
    return path
