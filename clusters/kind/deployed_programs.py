"""The programs under test as pods: killed without a word, kept down, brought back, reached; what they have logged.

A DaemonSet or a ReplicaSet replaces whatever dies, so a program is stopped (SIGSTOP: from then on it does nothing), taken off
its node, and killed (SIGKILL) once its pod must go: no second one exists in between, and the first one never shuts down cleanly.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from clusters.api.api_client import MERGE_PATCH, ApiClient, Object
from clusters.api.resources import DEPLOYMENTS, NODES, PODS
from clusters.api.waiting import eventually, meanwhile
from clusters.kind.product import DEVICE_PLUGIN, EXTENDER, EXTENDER_PORT, NAMESPACE, PLUGIN_LABEL
from clusters.kind.workers import NodeContainer
from clusters.processes.program import Program
from clusters.processes.scratch import free_port
from clusters.provider import ClusterError

# By which labels the manifests tell the pods of each program.
_EXTENDER_PODS: Final = f"component={EXTENDER}"
_PLUGIN_PODS: Final = "component=gpushare-device-plugin"

_SAYS_READY: Final = "Forwarding from"
# Between two attempts while the API server is away, in seconds.
_RETRY_SECONDS: Final = 0.2
# Against hangs only, in seconds: a restarted machine takes some twenty on two cores.
_UP_SECONDS: Final = 120.0


class PodsLog:
    """The log of a workload's pods on one node, as the runtime keeps it there, under the name by which reports have it."""

    def __init__(self, name: str, node: NodeContainer, workload: str, kept: Path) -> None:
        """``kept`` has the logs of the pods that are gone."""
        self.name = name
        self._node = node
        self._workload = workload
        self._kept = kept

    def log_files(self) -> Sequence[Path]:
        """Those of the pods that are gone, then of those that are there."""
        return [self._kept, *self._node.log_files(f"{NAMESPACE}_{self._workload}")]


class DeployedPrograms:
    """The extender, and the device plugin of each node. ``sets`` names the DaemonSet of each node; ``folder`` keeps old logs."""

    def __init__(
        self, api: ApiClient, container_of: Callable[[str], NodeContainer], sets: Mapping[str, str], folder: Path
    ) -> None:
        self._api = api
        self._container_of = container_of
        self._sets = sets
        self._folder = folder

    async def kill_extender(self) -> None:
        """SIGKILL; it stays down."""
        await self._kill(_EXTENDER_PODS, None, lambda: self._scale(0))

    async def start_extender(self) -> None:
        """Bring it back; when it is ready is for its door to say."""
        await self._scale(1)

    async def kill_plugin(self, node: str) -> None:
        """SIGKILL; it stays down."""
        await self._kill(_PLUGIN_PODS, node, lambda: self._label(node, None))

    async def start_plugin(self, node: str) -> None:
        """Bring it back. Raises ClusterError if the node has no cards."""
        if node not in self._sets:
            raise ClusterError(f"node {node!r} has no simulated cards, and so no device plugin to launch")
        await self._label(node, self._sets[node])

    @contextlib.asynccontextmanager
    async def rebooting(self, node: str) -> AsyncIterator[None]:
        """While inside the machine restarts; afterwards its plugin runs in a container of its own again if it did before."""
        before = await self._plugin_container(node)
        yield
        if before:
            await eventually(
                partial(self._plugin_container, node),
                lambda container: container not in ("", before),
                f"the device plugin of {node} runs in a container of its own again",
                seconds=_UP_SECONDS,
            )

    async def _plugin_container(self, node: str) -> str:
        """The id of the container that the plugin of a node runs in; "" while there is none."""
        pods = await self._pods(_PLUGIN_PODS, node)
        return next((found for pod in pods for found in running_containers(pod)), "")

    def log_of(self, name: str, node: NodeContainer, workload: str) -> PodsLog:
        """The same as ``log``, as files."""
        return PodsLog(name, node, workload, self._kept(workload, node.node))

    def log(self, node: NodeContainer, workload: str) -> str:
        """The logs of the pods of a workload on a node, the gone ones first."""
        kept = self._kept(workload, node.node)
        before = kept.read_text() if kept.exists() else ""
        return before + plain(node.read_logs(f"{NAMESPACE}_{workload}"))

    async def _kill(self, labels: str, node: str | None, take_off: Callable[[], Any]) -> None:
        pods = [pod for pod in await self._pods(labels, node) if running_containers(pod)]
        if not pods:
            raise ClusterError(f"no pod with {labels} runs{f' on {node}' if node else ''}; there is none to kill")
        for pod in pods:
            await self._signal(pod, "SIGSTOP")
        await take_off()
        for pod in pods:
            await eventually(partial(self._now, pod), _is_to_go, f"{_name(pod)} is to go")
            self._keep_log(pod)
            await self._signal(pod, "SIGKILL")
        for pod in pods:
            await eventually(partial(self._now, pod), lambda found: found is None, f"{_name(pod)} is gone")

    async def _signal(self, pod: Object, signal: str) -> None:
        node = self._container_of(pod["spec"]["nodeName"])
        for container in running_containers(pod):
            await node.signal(container, signal)

    def _keep_log(self, pod: Object) -> None:
        """With its pod a kubelet removes the log."""
        node = self._container_of(pod["spec"]["nodeName"])
        workload = EXTENDER if pod["metadata"]["labels"]["component"] == EXTENDER else DEVICE_PLUGIN
        with self._kept(workload, node.node).open("a") as kept:
            kept.write(plain(node.read_logs(f"{NAMESPACE}_{pod['metadata']['name']}")))

    def _kept(self, workload: str, node: str) -> Path:
        return self._folder / f"{workload}-{node}.log"

    async def _pods(self, labels: str, node: str | None) -> list[Object]:
        """Those that are not on their way out."""
        where = f"spec.nodeName={node}" if node else None
        pods = await self._api.list(PODS, NAMESPACE, label_selector=labels, field_selector=where)
        return [pod for pod in pods if not _is_to_go(pod)]

    async def _now(self, pod: Object) -> Object | None:
        """The pod as it is now; None when it is gone, or another has its name."""
        found = await self._api.find(PODS, pod["metadata"]["name"], NAMESPACE)
        return found if found is not None and found["metadata"]["uid"] == pod["metadata"]["uid"] else None

    async def _scale(self, replicas: int) -> None:
        change = {"spec": {"replicas": replicas}}
        await self._api.patch(DEPLOYMENTS, EXTENDER, change, NAMESPACE, content_type=MERGE_PATCH)

    async def _label(self, node: str, value: str | None) -> None:
        change = {"metadata": {"labels": {PLUGIN_LABEL: value}}}
        await self._api.patch(NODES, node, change, content_type=MERGE_PATCH)


class ExtenderPortForward:
    """The extender's address on this machine: a loopback port that leads, through the API server, to the one of kube-scheduler.

    The extender listens on the loopback of the control plane's node. All pods of that node's own network share it, so the way leads
    through the pod of kube-scheduler, which stays while the extender comes and goes. ``kubectl port-forward`` ends at the first
    connection that fails; then it is started again, on the same port.

    ``control_plane`` is the Node's name.
    """

    def __init__(
        self, kubectl: Path, kubeconfig: Path, control_plane: str, environment: Mapping[str, str], log: Path
    ) -> None:
        self.port = free_port()
        argv = [
            str(kubectl),
            f"--kubeconfig={kubeconfig}",
            "port-forward",
            "--address=127.0.0.1",
            f"--namespace={NAMESPACE}",
            f"pod/kube-scheduler-{control_plane}",
            f"{self.port}:{EXTENDER_PORT}",
        ]
        self._program = Program("kubectl port-forward", argv, environment, log)

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """While inside it is open as soon as there is a way, and kept open."""
        try:
            async with meanwhile(self._keep_open()):
                yield
        finally:
            await self._program.stop()

    def log(self) -> str:
        """The last output of kubectl."""
        return self._program.tail(3)

    async def _keep_open(self) -> None:
        while True:
            before = self._program.log().count(_SAYS_READY)
            try:
                await self._program.launch(partial(self._has_said, before))
                await self._program.ended()
            except ClusterError:
                await asyncio.sleep(_RETRY_SECONDS)

    async def _has_said(self, before: int) -> bool:
        """Does this one forward, and not only the one before?"""
        return self._program.log().count(_SAYS_READY) > before


def _is_to_go(pod: Object | None) -> bool:
    return pod is None or "deletionTimestamp" in pod["metadata"]


def _name(pod: Object) -> str:
    return str(pod["metadata"]["name"])


def running_containers(pod: Object) -> list[str]:
    """The ids of a pod's containers that run, as its status has them."""
    statuses = pod["status"].get("containerStatuses") or []
    return [str(status["containerID"]) for status in statuses if "running" in status["state"]]


def plain(text: str) -> str:
    """A container's log as the runtime keeps it (time, stream, F or P, then the text) as the container wrote it."""
    parts = (line.split(" ", 3) for line in text.splitlines())
    # P is a part of a line, which the next one continues.
    return "".join(part[3] + ("\n" if part[2] == "F" else "") for part in parts if len(part) == 4)
