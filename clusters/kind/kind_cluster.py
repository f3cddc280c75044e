"""A cluster of real kubelets in containers, made by kind: the programs under test as pods of the manifests that we ship.

The cards are simulated. Everything of a run lies in one short temporary folder, each worker's folders for device plugins and
its cards too, so that both can be reached from this machine. Ports are on loopback only, and the user's kubeconfig is never opened.
"""

from __future__ import annotations

import contextlib
import operator
from functools import partial
from pathlib import Path
from typing import Any, Final

from clusters.api import kubeconfig_file, program_pod
from clusters.api.api_client import ApiClient
from clusters.api.readiness import announces_cards, says_ready
from clusters.api.resources import PODS
from clusters.api.waiting import NotReachedError, all_or_none, eventually, glimpse
from clusters.kind import product
from clusters.kind.making import Made, Plan, add_worker, make
from clusters.kind.worker_kubelet import WorkerKubelet, is_ready
from clusters.kind.workers import Workers
from clusters.provider import ClusterError, NodeSpec

EXTENDER: Final = "extender"
DEVICE_PLUGIN: Final = "device_plugin"
KUBELET: Final = "kubelet"
# Against hangs only, in seconds: images are unpacked, programs start, kubelets tell.
_READY_SECONDS: Final = 180.0


class KindCluster:
    """One cluster (the seam is ``clusters.provider.Cluster``): one control plane, and a worker for each node of the plan.

    A worker has the cards, driver and labels of its NodeSpec, and the processors and memory of this machine.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._target = plan.target
        self._stack = contextlib.AsyncExitStack()
        self._made: Made
        self.kubeconfig = Path()
        self.api: ApiClient

    @property
    def workers(self) -> Workers:
        """Its workers as this machine sees them, for cases about kubelets."""
        return self._made.workers

    async def start(self) -> None:
        """Bring it up; see the seam."""
        try:
            self._made = await make(self._plan, self._stack)
            self.api, self.kubeconfig = self._made.api, self._made.api_server.kubeconfig
            await self._settle()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """See the seam."""
        await self._stack.aclose()

    async def _settle(self) -> None:
        """Wait until pods can be scheduled onto cards."""
        nodes = (self._node_is_ready(node) for node in self.workers.names())
        plugins = (self._plugin_is_ready(node) for node in self.workers.sets)
        try:
            await all_or_none(*nodes, *plugins, self._extender_is_ready())
        except NotReachedError as error:
            pods = glimpse(await self.api.list(PODS, product.NAMESPACE))
            raise ClusterError(f"{error}\n{pods}\n{self._made.door.log()}") from error

    def extender_url(self) -> str:
        """See the seam."""
        return f"http://127.0.0.1:{self._made.door.port}{self._target.extender.path}"

    async def kubeconfig_of(self, account: str, node: str = "") -> Path:
        """See the seam."""
        if not account:
            return self.kubeconfig
        namespace, _, name = account.partition("/")
        pod = await program_pod.ensure(self.api, account, node) if node else ""
        path = self._made.folder / f"{name}{node and '-' + node}.kubeconfig"
        if path.exists() and not pod:
            return path
        token = await program_pod.service_account_token(self.api, namespace, name, pod)
        return kubeconfig_file.write(path, self._made.api_server.url, ca=self._made.api_server.ca, token=token)

    async def kill(self, program: str, node: str | None = None) -> None:
        """See the seam."""
        if program == EXTENDER:
            await self._made.programs.kill_extender()
        elif node is None:
            raise ClusterError(f"which node's {program}?")
        elif program == KUBELET:
            await self._kubelet(node).stop(kill=True)
        else:
            await self._made.programs.kill_plugin(node)
            await self._plugin_is_gone(node)

    async def launch(self, program: str, node: str | None = None) -> None:
        """See the seam."""
        if program == EXTENDER:
            await self._made.programs.start_extender()
            await self._extender_is_ready()
        elif node is None:
            raise ClusterError(f"which node's {program}?")
        elif program == KUBELET:
            await self._kubelet(node).start()
        else:
            await self._made.programs.start_plugin(node)
            await self._plugin_is_ready(node)

    async def restart_kubelet(self, node: str, *, reboot: bool = False, lose_checkpoint: bool = False) -> None:
        """See the seam."""
        kubelet = self._kubelet(node)
        if not reboot:
            await kubelet.restart(lose_checkpoint=lose_checkpoint)
            return
        await kubelet.reboot(lose_checkpoint=lose_checkpoint)
        if node in self.workers.sets:
            await self._plugin_is_ready(node)

    async def add_node(self, node: NodeSpec) -> None:
        """See the seam."""
        await add_worker(self._made, self._target, node)
        await self._node_is_ready(node.name)
        if node.name in self.workers.sets:
            await self._plugin_is_ready(node.name)

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
            return self._made.programs.log(self.workers.container(self.workers.control_plane), product.EXTENDER)
        return self._made.programs.log(self.workers.container(node or ""), product.DEVICE_PLUGIN)

    def _kubelet(self, node: str) -> WorkerKubelet:
        return WorkerKubelet(node, self.workers, self.api, self._made.programs)

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
        url = f"http://127.0.0.1:{self._made.door.port}{self._target.extender.ready}"
        await eventually(partial(says_ready, url), bool, "the extender is ready", seconds=_READY_SECONDS)
