"""A node of kind from outside: commands in its container, its kubelet, its containers, a restart of the whole.

On cgroup v1 a process that is frozen takes no signal, not even SIGKILL. A node's own runtime freezes a container for a moment
when it changes what that may use. A machine that loses its power in that moment, or is removed, leaves it frozen for ever: its
first process ends only after all others, and so never. So frozen containers are thawed while a node ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import glob
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from clusters.api.waiting import meanwhile
from clusters.processes.commands import output_of

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
