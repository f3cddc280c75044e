"""The kubelet of a worker: stopped, killed, started, its machine rebooted; and when it is up again."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from clusters.api.api_client import ApiClient, ApiError
from clusters.api.resources import NODES
from clusters.api.waiting import eventually
from clusters.kind.deployed_programs import DeployedPrograms
from clusters.kind.node_container import CHECKPOINT, NodeContainer
from clusters.kind.workers import Workers

SOCKET: Final = Path("device-plugins", "kubelet.sock")
# Against hangs only, in seconds: a restarted machine takes some twenty on two cores.
_UP_SECONDS: Final = 120.0


class WorkerKubelet:
    """One worker's."""

    def __init__(self, node: str, workers: Workers, api: ApiClient, programs: DeployedPrograms) -> None:
        self._node = node
        self._workers = workers
        self._api = api
        self._programs = programs

    async def stop(self, *, kill: bool = False) -> None:
        """It stays down; containers run on."""
        await self._container.stop_kubelet(kill=kill)

    async def start(self) -> None:
        """Start it; returns when plugins can register and its node is ready."""
        before = self._socket()
        await self._container.start_kubelet()
        await self._is_up(before)

    async def restart(self, *, lose_checkpoint: bool = False) -> None:
        """Stop it, and start it with an empty memory if the memory must be lost."""
        await self.stop()
        if lose_checkpoint:
            await self._container.lose_checkpoint()
        await self.start()

    async def reboot(self, *, lose_checkpoint: bool = False) -> None:
        """The machine ends as in a power failure and starts again; so do its cards, and its device plugin if it had one."""
        before, plugin = self._socket(), await self._programs.plugin_container(self._node)
        await self._container.power_off()
        await self._workers.simulated(self._node).fake_nvml("reboot")
        if lose_checkpoint:
            (self._workers.folder(self._node) / "device-plugins" / Path(CHECKPOINT).name).unlink(missing_ok=True)
        await self._container.power_on()
        await self._is_up(before)
        if plugin:
            await eventually(
                lambda: self._programs.plugin_container(self._node),
                lambda container: container not in ("", plugin),
                f"the device plugin of {self._node} runs in a container of its own again",
                seconds=_UP_SECONDS,
            )

    @property
    def _container(self) -> NodeContainer:
        return self._workers.container(self._node)

    def _socket(self) -> tuple[int, int] | None:
        """By what the socket for registrations is known from the one before."""
        try:
            found = (self._workers.folder(self._node) / SOCKET).stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_ctime_ns

    async def _is_up(self, before: tuple[int, int] | None) -> None:
        async def sockets() -> tuple[int, int] | None:
            return self._socket()

        await eventually(
            sockets,
            lambda seen: seen not in (None, before),
            f"the kubelet of {self._node} has a new socket for device plugins",
            seconds=_UP_SECONDS,
        )
        await eventually(self._ready, bool, f"node {self._node} is ready", seconds=_UP_SECONDS)

    async def _ready(self) -> bool:
        return await is_ready(self._api, self._node)


async def is_ready(api: ApiClient, node: str) -> bool:
    """Is the Node there, and ready?"""
    try:
        found = await api.get(NODES, node)
    except ApiError:
        return False
    conditions = found["status"].get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
