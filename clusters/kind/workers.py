"""The workers of a cluster as this machine sees them: their folders and simulated cards here, their containers, their kubelets."""

from __future__ import annotations

import asyncio
import contextlib
import glob
import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from clusters.api.api_client import ApiClient, ApiError
from clusters.api.resources import NODES
from clusters.api.waiting import eventually, meanwhile
from clusters.kind.kind_config import NODE_FOLDERS, Worker, container_of_control_plane, containers_of_workers
from clusters.kind.product import PLUGIN_LABEL, PluginSet
from clusters.processes.commands import output_of
from clusters.provider import ClusterError, NodeSpec
from clusters.simulated_node import SimulatedNode, new_cards

FREEZER: Final = Path("/sys/fs/cgroup/freezer")
# How often one looks for frozen containers while they end, in seconds.
_THAW_SECONDS: Final = 0.2
# Kubernetes's containers, among containerd's.
_CONTAINERD: Final = ("ctr", "--namespace", "k8s.io")
_DEVICE_PLUGIN_LINES: Final = (
    "journalctl --unit kubelet --no-pager --output cat"
    " | grep -e ' resource' -e 'egistered client' -e 'Updated a'"
    " | tail -n 40"
)


class NodeContainer:
    """One node; ``environment`` names its Docker, ``logs`` is where this machine has the logs of its pods."""

    def __init__(self, node: str, container: str, environment: Mapping[str, str], logs: Path) -> None:
        self.node = node
        self.container = container
        self._environment = environment
        self._logs = logs

    async def execute(self, *argv: str) -> str:
        """Run a command in it; what it prints. Raises ClusterError with its error."""
        return await docker(self._environment, "exec", self.container, *argv)

    async def device_plugin_log(self) -> str:
        """The last lines that its kubelet logged about device plugins and what they offer."""
        return await self.execute("sh", "-c", _DEVICE_PLUGIN_LINES)

    async def power_off(self) -> None:
        """End the machine: all its processes in one moment, as in a power failure. Returns when it has ended."""
        found = await docker(self._environment, "inspect", "--format", "{{.Id}}", self.container)
        async with thawing([found.strip()]):
            await docker(self._environment, "kill", self.container)
            await docker(self._environment, "wait", self.container)

    async def power_on(self) -> None:
        """Start the machine again; its boot id is another if the node's image gives it one of its own."""
        await docker(self._environment, "start", self.container)

    async def signal(self, container_id: str, signal: str) -> None:
        """Signal every process of a pod's container (its id as a pod's status has it: ``containerd://…``)."""
        task = container_id.partition("://")[2]
        await self.execute(*_CONTAINERD, "tasks", "kill", "--all", "--signal", signal, task)

    async def import_images(self, archive: str) -> None:
        """Put the images of an archive, which lies in the node, into its store."""
        # Unpacked with the first container of each: a node that never does saves the time.
        await self.execute(*_CONTAINERD, "images", "import", "--no-unpack", archive)

    def read_logs(self, pods: str) -> str:
        """The logs of pods with this beginning of ``namespace_name``, each line as the runtime keeps it; "" if there are none."""
        found = []
        for path in self.log_files(pods):
            with contextlib.suppress(FileNotFoundError):  # the kubelet has removed it since
                found.append(path.read_text(errors="replace"))
        return "".join(found)

    def log_files(self, pods: str) -> list[Path]:
        """The files of these logs, as they are now."""
        # Path.glob raises FileNotFoundError if the kubelet removes a pod's folder while it runs.
        pattern = f"{glob.escape(str(self._logs))}/{pods}*/*/*.log"
        return sorted(map(Path, glob.glob(pattern)))  # noqa: PTH207  # see above


async def docker(environment: Mapping[str, str], *arguments: str) -> str:
    """Run the docker command; what it prints. Raises ClusterError with its error."""
    return await output_of(["docker", *arguments], environment)


def thawing(containers: Iterable[str]) -> contextlib.AbstractAsyncContextManager[None]:
    """While inside, whatever is frozen in these containers (whole ids, as Docker has them) is thawed."""
    return meanwhile(_keep_thawing(tuple(containers)))


async def _keep_thawing(containers: tuple[str, ...]) -> None:
    while True:
        for container in containers:
            with contextlib.suppress(OSError):  # a group has gone while its folder was read
                thaw(container)
        await asyncio.sleep(_THAW_SECONDS)


def thaw(container: str) -> None:
    """Thaw what is frozen in a container now: its control group (named after it, wherever that is) and all below.

    Nothing on a machine without cgroup v1, or for a user without the right to write there.
    """
    for group in FREEZER.rglob(f"*{container}*"):
        for state in group.rglob("freezer.state"):
            with contextlib.suppress(OSError):  # it is gone, or not ours to change
                if state.read_text().strip() != "THAWED":
                    state.write_text("THAWED")


_LOG = logging.getLogger(__name__)

# As the manifests name it inside a node's folder of simulated cards.
_STATE_FILE: Final = "state"
# Below a worker's folder.
_SOCKET: Final = Path("device-plugins", "kubelet.sock")
_CHECKPOINT: Final = Path("device-plugins", "kubelet_internal_checkpoint")
# Against hangs only, in seconds: a restarted machine takes some twenty on two cores.
_UP_SECONDS: Final = 120.0
# Characters of a label's value.
_LONGEST_NAME: Final = 63


class Workers:
    """The workers of ``cluster``; each has a folder of its own in ``folder``, which is short enough for unix sockets."""

    def __init__(self, cluster: str, folder: Path, environment: Mapping[str, str], sets: Sequence[PluginSet]) -> None:
        self._cluster = cluster
        self._folder = folder
        self._environment = environment
        self._simulated: dict[str, SimulatedNode] = {}
        self._containers: dict[str, NodeContainer] = {}
        self.sets = {node: one.name for one in sets for node in one.nodes}
        """Which DaemonSet has a node; nodes without cards are in none."""
        self.control_plane = container_of_control_plane(cluster)

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
        if len(node.name) > _LONGEST_NAME:
            raise ClusterError(
                f"node {node.name}: {len(node.name)} characters; on kind a node's name has {_LONGEST_NAME} at most, as its "
                "kubelet makes a label of it (the providers embedded and controlplane take 253)"
            )
        folder = self._folder / node.name
        for name in NODE_FOLDERS:
            (folder / name).mkdir(parents=True)
        state_file = folder / "nvml" / _STATE_FILE
        new_cards(state_file, node).close()
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


class WorkerKubelet:
    """The kubelet of a worker: stopped, killed, started, its machine rebooted; and when it is up again."""

    def __init__(self, node: str, workers: Workers, api: ApiClient) -> None:
        self._node = node
        self._api = api
        self._container = workers.container(node)
        self._simulated = workers.simulated(node)

    async def stop(self, *, kill: bool = False, lose_checkpoint: bool = False) -> None:
        """It stays down; containers run on. ``kill`` is for SIGKILL."""
        if kill:
            # Stopped by systemd the unit does not come back; the signal comes before the unit's own SIGTERM.
            await self._container.execute("systemctl", "kill", "--signal=SIGKILL", "kubelet")
        await self._container.execute("systemctl", "stop", "kubelet")
        if lose_checkpoint:
            self._lose_checkpoint()

    async def start(self) -> None:
        """Start it; returns when plugins can register and its node is ready."""
        before = await self._socket()
        # Many restarts in a row are meant here; systemd would give up on the unit.
        await self._container.execute("systemctl", "reset-failed", "kubelet")
        await self._container.execute("systemctl", "start", "kubelet")
        await self._is_up(before)

    async def reboot(self, *, lose_checkpoint: bool = False) -> None:
        """The machine ends as in a power failure and starts again; so do its cards."""
        before = await self._socket()
        await self._container.power_off()
        await self._simulated.fake_nvml("reboot")
        if lose_checkpoint:
            self._lose_checkpoint()
        await self._container.power_on()
        await self._is_up(before)

    def _lose_checkpoint(self) -> None:
        """Remove the file from which a kubelet that is down will read the devices of containers."""
        (self._simulated.folder / _CHECKPOINT).unlink(missing_ok=True)

    async def _socket(self) -> tuple[int, int] | None:
        """By what the socket for registrations is known from the one before."""
        try:
            found = (self._simulated.folder / _SOCKET).stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_ctime_ns

    async def _is_up(self, before: tuple[int, int] | None) -> None:
        what = f"the kubelet of {self._node} has a new socket for device plugins"
        await eventually(self._socket, lambda seen: seen not in (None, before), what, seconds=_UP_SECONDS)
        ready = partial(is_ready, self._api, self._node)
        await eventually(ready, bool, f"node {self._node} is ready", seconds=_UP_SECONDS)


async def is_ready(api: ApiClient, node: str) -> bool:
    """Is the Node there, and ready?"""
    try:
        found = await api.get(NODES, node)
    except ApiError:
        return False
    conditions = found["status"].get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
