"""The plugin's watch of its cards, wired as in its main: real pynvml on simulated cards, a stub API server, a real gRPC stream."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc.aio

from clusters.kubelet.proto import deviceplugin_pb2 as pb
from clusters.kubelet.proto.grpc_services import DEVICE_PLUGIN, stub_of
from fake_nvml.state import State
from gpushare.cli.settings import device_plugin_settings
from gpushare.deviceplugin.core.health import XidRules
from gpushare.deviceplugin.core.plugin_metrics import PluginMetrics
from gpushare.deviceplugin.grpc_server import DevicePluginServer
from gpushare.deviceplugin.main import DevicePlugin
from gpushare.kube.client import ApiClient
from gpushare.kube.event_recorder import EventRecorder
from gpushare.nvml.session import NvmlSession, NvmlThread
from tests.gpushare.deviceplugin.admitting_node import gpu_pod
from tests.servers import StubApi, http_pool, serve, until

SURVEY = 10.0


@dataclass
class Clock:
    """Seconds that pass when a test wants it."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Rig:
    """One node's plugin, and the lists that its kubelet got. The kubelet's counts go into the Node, as a kubelet does."""

    state: State
    api: StubApi
    clock: Clock
    parts: DevicePlugin
    plugin: Any
    lists: list[dict[str, str]] = field(default_factory=list)
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)

    @property
    def uuids(self) -> list[str]:
        return [card.uuid for card in self.state.cards()]

    def published(self) -> dict[str, Any]:
        """The annotation on the Node now."""
        annotations = self.api.nodes[0]["metadata"].get("annotations", {})
        return dict(json.loads(annotations.get("aliyun.com/gpushare-cards", '{"cards": []}')))

    def reasons(self) -> list[str]:
        """Why each published card is unhealthy, by index."""
        cards = self.published()["cards"]
        assert all(card["healthy"] == (not card["reason"]) for card in cards)
        return [card["reason"] for card in cards]

    def unhealthy_ids(self) -> int:
        """Unhealthy ids of the last list."""
        return sum(health == "Unhealthy" for health in self.lists[-1].values())

    def capacity(self, name: str) -> str | None:
        text = self.api.nodes[0]["status"]["capacity"].get(f"aliyun.com/gpu-{name}")
        return None if text is None else str(text)

    def events(self, kind: str) -> list[tuple[str, str]]:
        """Reason and message of the events on objects of a kind."""
        return [
            (event["reason"], event["message"])
            for event in self.api.events
            if event and "involvedObject" in event and event["involvedObject"]["kind"] == kind
        ]

    async def reached(self, reasons: list[str]) -> None:
        """Until the Node shows this of its cards and the kubelet got the same."""
        units = {index: card["units"] for index, card in enumerate(self.published()["cards"])}
        unhealthy = sum(units.get(index, 0) for index, reason in enumerate(reasons) if reason)
        await until(lambda: self.reasons() == reasons and self.unhealthy_ids() == unhealthy)

    async def settled(self) -> None:
        """Until the watch has taken two whole turns: what was to happen has happened."""
        # The one that is under way may be past what matters.
        reached = self.parts.watch.turns + 3
        await until(lambda: self.parts.watch.turns >= reached)

    async def follow(self) -> None:
        """The kubelet: takes each list, and counts it into the Node's capacity."""
        async for message in self.plugin.ListAndWatch(pb.Empty()):
            self.lists.append({device.ID: device.health for device in message.devices})
            self.count()

    def count(self) -> None:
        """The kubelet writes what it has."""
        self.api.nodes[0]["status"]["capacity"]["aliyun.com/gpu-mem"] = str(len(self.lists[-1]))
        self.parts.node.wake()


def new_node() -> dict[str, Any]:
    return {
        "metadata": {"name": "rig", "uid": "uid-rig"},
        "status": {"capacity": {}, "nodeInfo": {"kubeletVersion": "v1.36.3", "bootID": "boot-1"}},
    }


def holder(name: str, index: int) -> dict[str, Any]:
    """A running pod that holds that card."""
    return gpu_pod(name, 1, card=index) | {"status": {"phase": "Running"}}


@contextlib.asynccontextmanager
async def running(
    state: State,
    *,
    api: StubApi | None = None,
    rules: XidRules | None = None,
    unit: str = "GiB",
    more: tuple[str, ...] = (),
    ends_with: tuple[type[Exception], ...] = (),
) -> AsyncIterator[Rig]:
    """A plugin that watches, and that ends with these errors; ``more`` are flags."""
    api = api or StubApi(nodes=[new_node()])
    clock, rules = Clock(), rules or XidRules()
    flags = ["--cool-down=60s", f"--survey-interval={SURVEY:.0f}s", *more]
    settings = device_plugin_settings(["--node-name=rig", f"--memory-unit={unit}", *flags], {})
    nvml = NvmlThread(NvmlSession(None, listen=not rules.hears_nothing, sysfs=Path("/nonexistent")))
    with tempfile.TemporaryDirectory(prefix="gs-", dir="/tmp") as name:
        socket = Path(name) / "plugin.sock"
        async with serve(api) as url, http_pool(url) as http:
            client = ApiClient(http)
            # Names of events: others after a restart.
            events = EventRecorder(client, "test", clock, random.Random(len(api.calls)))
            parts = DevicePlugin(settings, client, events, nvml, clock, "fallback-boot", rules, PluginMetrics())
            await parts.begin()
            await parts.node.publish_patiently()
            server = DevicePluginServer(object(), parts.node)  # type: ignore[arg-type]  # nothing is allocated here
            await server.start(socket)
            async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
                rig = Rig(state, api, clock, parts, stub_of(channel, DEVICE_PLUGIN))
                works = (rig.follow(), parts.watch.run(), parts.node.keep_published(), parts.news.run())
                rig.tasks = tasks = [asyncio.create_task(one) for one in works]
                try:
                    await until(lambda: bool(rig.lists))
                    yield rig
                finally:
                    for task in tasks:
                        task.cancel()
                    done = await asyncio.gather(*tasks, return_exceptions=True)
                    nvml.close()
                    await server.stop()
                    assert await asyncio.to_thread(nvml.join, 30)
                    crashed = [one for one in done if not isinstance(one, asyncio.CancelledError)]
                    assert [type(one) for one in crashed] == list(ends_with), crashed
