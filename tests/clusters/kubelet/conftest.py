"""A short folder for sockets, a device manager behind a real registration socket, and plugins that are stopped."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from clusters.api.api_client import ApiClient
from clusters.api.connection import Connection
from clusters.images.behaviour import Behaviours
from clusters.kubelet.device_manager import DeviceManager
from clusters.kubelet.kubelet import Kubelet
from clusters.kubelet.kubelet_cards import Cards
from clusters.kubelet.machine import Machine
from clusters.kubelet.plugin_client import Registration, serving
from clusters.kubelet.timings import Timings
from fake_nvml.box import Box
from fake_nvml.state import State
from tests.clusters.kubelet.small_plugin import Plugin, register
from tests.servers import StubApi, serve, until


@pytest.fixture
def folder() -> Iterator[Path]:
    """Unix sockets take about 107 bytes of path; pytest's own temporary folders are longer."""
    path = Path(tempfile.mkdtemp(prefix="gs-", dir="/tmp"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


class Node:
    """A device manager with its registration socket."""

    def __init__(self, folder: Path, timings: Timings) -> None:
        self.folder = folder
        self.changes = 0
        self.devices = DeviceManager(folder, random.Random(1), timings, self._changed)
        self.registration = AsyncExitStack()
        self.plugins: list[Plugin] = []

    def _changed(self) -> None:
        self.changes += 1

    async def start(self) -> bool:
        had_checkpoint = self.devices.start()
        plugins = Registration(self.folder, self.devices.connect)
        await self.registration.enter_async_context(serving(self.folder, plugins.add_to))
        return had_checkpoint

    async def stop(self) -> None:
        await self.registration.aclose()
        await self.devices.stop()

    async def plug(self, plugin: Plugin, endpoint: str = "plugin.sock") -> Plugin:
        """Serve, register, and wait for the first list."""
        self.plugins.append(plugin)
        changes = self.changes
        await plugin.serve(self.folder / endpoint)
        await register(self.folder, endpoint)
        await until(lambda: self.changes > changes, "the first list")
        return plugin


@pytest.fixture
def timings() -> Timings:
    return Timings()


@pytest.fixture
async def node(folder: Path, timings: Timings) -> AsyncIterator[Node]:
    node = Node(folder, timings)
    await node.start()
    yield node
    await node.stop()
    for plugin in node.plugins:
        await plugin.stop()


@pytest.fixture
async def api() -> AsyncIterator[StubApi]:
    api = StubApi()
    async with serve(api) as url, ApiClient(Connection(url)) as api.client:
        yield api


@pytest.fixture
def state(folder: Path) -> Iterator[State]:
    """One simulated T4 of 15,079 MiB."""
    with State.create(folder / "nvml", Box.load("t4x1", seed="n1")) as state:
        yield state


@pytest.fixture
def pod_timings() -> Timings:
    return Timings(start_retry=0.01, start_retry_longest=0.05, restart=0.01, restart_longest=0.05, node_sync=0.0)


def kubelet_on(machine: Machine, folder: Path, api: StubApi, state: State, timings: Timings) -> Kubelet:
    """A kubelet of this machine that is not started, with a clock that stands."""
    return Kubelet(
        machine,
        folder,
        api.client,
        behaviours=Behaviours.load(),
        cards=Cards(state),
        seed=1,
        clock=lambda: 1_700_000_000.0,
        timings=timings,
    )


@pytest.fixture
async def kubelet(folder: Path, api: StubApi, state: State, pod_timings: Timings) -> AsyncIterator[Kubelet]:
    kubelet = kubelet_on(Machine("n1", labels={"gpushare": "true"}), folder, api, state, pod_timings)
    await kubelet.start()
    yield kubelet
    await kubelet.stop()
