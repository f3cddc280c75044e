"""Promises of gpushare.deviceplugin.usage_watch: a folder as /proc, a real API server."""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpushare.cli.plugin_flags import Tolerance, UsageFlags
from gpushare.deviceplugin.core.plugin_metrics import PluginMetrics
from gpushare.deviceplugin.usage_watch import OveruserEvictor, ProcessOwners, UsageWatch
from gpushare.kube.client import ApiClient
from gpushare.kube.event_recorder import EventRecorder
from gpushare.manifests import ObjectMeta, OwnerReference
from gpushare.model.cards import CardFacts, NodeCards
from gpushare.nvml.api import NvmlError, Process
from tests.gpushare.deviceplugin.core.bound_pod import bound_pod
from tests.servers import StubApi, http_pool, serve

ID = "0123456789abcdef" * 4
UID = "3b1f2c4d-5e6f-4a7b-8c9d-0a1b2c3d4e5f"
OUTER = "11111111-2222-3333-4444-555555555555"
MIB = 1024 * 1024


class Rig:
    """A node of two T4 with one pod that booked 1 GiB of card 0, and a watch that is wired as in the plugin."""

    def __init__(self, proc: Path, client: ApiClient, api: StubApi, *, evicts: bool) -> None:
        self.proc, self.api, self.now, self.published = proc, api, 0.0, ""
        # The processes of each card that answers.
        self.running: dict[str, list[Process]] = {"GPU-0": [], "GPU-1": []}
        (player,) = self.pods = [bound_pod(UID, 1, namespace="team", name="player", ALIYUN_COM_GPU_MEM_DEV="14")]
        player.metadata.owner_references = [OwnerReference("ReplicaSet", "web", "o", controller=True)]
        self.others: list[ObjectMeta] = []
        facts = [CardFacts(index, f"GPU-{index}", "Tesla T4", 15079, 14) for index in range(2)]
        self.cards = NodeCards(1, "ids", "GiB", "boot", tuple(facts))
        self.metrics = metrics = PluginMetrics()
        events = EventRecorder(client, "test", lambda: 0.0, random.Random(1))
        self.watch = UsageWatch(
            self.processes, lambda: self.cards, lambda: self.pods,
            lambda: {one.uid: one for one in (*(pod.metadata for pod in self.pods), *self.others)},
            ProcessOwners(proc), metrics, events,
            UsageFlags(True, 15, Tolerance(percent=10), 0, proc_root=str(proc)),
            lambda: self.now, lambda text: setattr(self, "published", text),
            OveruserEvictor(client, metrics, events, 60.0) if evicts else None,
        )  # fmt: skip

    async def processes(self, uuid: str) -> list[Process]:
        """The answer of NVML."""
        if uuid not in self.running:
            raise NvmlError("the card is lost")
        return self.running[uuid]

    def run(self, pid: int, mib: int, card: int = 0, uid: str = UID) -> None:
        """A process in a container of the pod."""
        self.running[f"GPU-{card}"].append(Process(pid, mib))
        process(self.proc, pid, f"/kubepods/burstable/pod{uid}/{ID}")

    async def looks(self, *times: int) -> None:
        """One look at each of these moments."""
        for self.now in times:
            await self.watch.look()


@asynccontextmanager
async def rig(proc: Path, *, evicts: bool = False) -> AsyncIterator[Rig]:
    """The watch at a real API server."""
    api = StubApi(pods=[{"metadata": {"name": "player", "namespace": "team", "uid": UID}}])
    async with serve(api) as url, http_pool(url) as http:
        yield Rig(proc, ApiClient(http), api, evicts=evicts)


def process(proc: Path, pid: int, group: str) -> None:
    """A process in a control group."""
    (proc / str(pid)).mkdir(parents=True)
    (proc / str(pid) / "cgroup").write_text(f"0::{group}\n")


async def test_a_card_that_does_not_answer_is_unknown_not_idle(tmp_path: Path) -> None:
    """The others are seen; the pod's series is gone, not 0; NVML's refusal is counted."""
    async with rig(tmp_path) as node:
        node.run(7, 2000)
        node.run(9, 30, card=1, uid=OUTER)
        await node.watch.look()
        del node.running["GPU-0"]
        await node.watch.look()

        seen = node.metrics.seen
        assert seen is not None
        assert ([use.used for use in seen.uses], seen.silent, seen.unaccounted) == ([None], {0}, {1: 30 * MIB})
        assert [event["reason"] for event in node.api.events] == ["GPUShareMemoryOveruse"]
        # What was seen last stays on the Node.
        assert node.published == f'[["{UID}",0,1024,2000]]'
        assert node.metrics.nvml_errors["processes"] == 1


async def test_a_process_on_a_card_not_booked_is_reported(tmp_path: Path) -> None:
    """A pod on another's card, and one without any: reported once each until it stops; processes of the host are not accused."""
    async with rig(tmp_path) as node:
        node.others = [ObjectMeta("miner", "other", OUTER)]
        node.run(7, 5, card=1)
        node.run(9, 900, uid="99999999-2222-3333-4444-555555555555")
        node.run(8, 900, uid=OUTER)
        for _ in range(3):
            await node.watch.look()

        assert sorted(event["involvedObject"]["name"] for event in node.api.events) == ["miner", "player"]
        assert {event["reason"] for event in node.api.events} == {"GPUShareCardNotBooked"}
        assert ({on.pod for on in node.metrics.unbooked}, node.metrics.unbooked_episodes) == ({"miner", "player"}, 2)
        del node.running["GPU-0"][-1]
        await node.watch.look()
        assert ({on.pod for on in node.metrics.unbooked}, len(node.api.events)) == ({"player"}, 2)


@pytest.mark.parametrize(
    ("groups", "own", "looks"),
    [
        ({}, None, [([7, 8], True), ([7], True)]),
        ({7: "/"}, None, [([], False), ([8, 7], False)]),
        ({1: "/"}, 1, [([], True), ([1], False)]),
        ({1: "/../../../../init.scope", 7: "/"}, 7, [([], False)]),
    ],
    ids=["no process is there", "one has ended", "our own container alone", "the host's, seen from a container"],
)
def test_a_proc_without_the_hosts_processes_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, groups: dict[int, str], own: int | None, looks: list[Any]
) -> None:
    """Without hostPID NVML's processes are invisible, or NVML lists none, which must not look like an idle card."""
    for pid, group in groups.items():
        process(tmp_path, pid, group)
    if own is not None:
        (tmp_path / "self").symlink_to(tmp_path / str(own))
    owners = ProcessOwners(tmp_path)

    assert [owners.is_blind(pids) for pids, _ in looks] == [is_blind for _, is_blind in looks]
    logged = [record.levelno for record in caplog.records]
    assert logged == [logging.WARNING] * any(is_blind for _, is_blind in looks)
    assert ("hostPID: true" in caplog.text) is bool(logged)


async def test_pod_that_is_another_by_now_is_left_alone(tmp_path: Path) -> None:
    """Its name was taken by a pod of another uid: that one stays, and no eviction is counted."""
    async with rig(tmp_path, evicts=True) as node:
        node.api.pods[0]["metadata"]["uid"] = "another"
        node.run(7, 1253)
        await node.looks(*range(0, 300, 15))

        assert (sum("/eviction" in call["path"] for call in node.api.calls), len(node.api.pods)) == (1, 1)
        assert node.metrics.overuse_evictions["evicted"] == 0


async def test_one_pod_of_a_node_is_evicted_in_a_minute(tmp_path: Path) -> None:
    """The worst first: a wrong tolerance must not empty the node at once."""
    async with rig(tmp_path, evicts=True) as node:
        (first,) = node.pods
        worse = msgspec.structs.replace(
            first, metadata=msgspec.structs.replace(first.metadata, name="worse", uid=OUTER)
        )
        node.pods.append(worse)
        node.api.pods.append({"metadata": {"name": "worse", "namespace": "team", "uid": OUTER}})
        node.run(7, 1253)
        node.run(8, 2000, uid=OUTER)
        await node.looks(0, 30, 60, 75, 119)
        assert [pod["metadata"]["name"] for pod in node.api.pods] == ["player"]
        await node.looks(120)
        assert node.api.pods == []
