"""Promises of gpushare.deviceplugin.usage_watch: real pynvml on simulated cards, a folder as /proc, a real API server."""

from __future__ import annotations

import functools
import logging
import os
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.registry import CollectorRegistry

from fake_nvml.state import State
from gpushare.cli.plugin_flags import Tolerance, UsageFlags
from gpushare.deviceplugin.core.kept_pods import keep
from gpushare.deviceplugin.core.plugin_metrics import PluginMetrics
from gpushare.deviceplugin.core.usage import ProcessUse
from gpushare.deviceplugin.metrics_exposition import PluginExposition
from gpushare.deviceplugin.overuser_evictor import OveruserEvictor
from gpushare.deviceplugin.usage_watch import ProcessOwners, UsageWatch
from gpushare.kube.client import ApiClient
from gpushare.kube.event_recorder import EventRecorder
from gpushare.manifests import ObjectMeta, Pod
from gpushare.model.cards import CardFacts, NodeCards
from gpushare.nvml.api import Process
from gpushare.nvml.session import NvmlSession
from gpushare.nvml.thread import NvmlThread
from tests.servers import StubApi, http_pool, serve

UID = "3b1f2c4d-5e6f-4a7b-8c9d-0a1b2c3d4e5f"
MIB = 1024 * 1024
Simulate = Callable[..., State]


class Rig:
    """A node of two T4 with one pod that booked 1 GiB of card 0."""

    def __init__(self, state: State, proc: Path, api: StubApi, registry: CollectorRegistry) -> None:
        self.state, self.proc, self.api, self.registry = state, proc, api, registry
        self.uuids = [card.uuid for card in state.cards()]
        self.now = 0.0
        self.pods = [
            keep(
                msgspec.convert(
                    {
                        "metadata": {
                            "name": "player",
                            "namespace": "team",
                            "uid": UID,
                            "annotations": {"ALIYUN_COM_GPU_MEM_IDX": "0", "ALIYUN_COM_GPU_MEM_DEV": "14"},
                            "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "o", "controller": True}],
                        },
                        "spec": {"containers": [{"name": "c", "resources": {"limits": {"aliyun.com/gpu-mem": 1}}}]},
                    },
                    Pod,
                )
            )
        ]
        self.watch: UsageWatch
        self.others: list[ObjectMeta] = []
        self.published = ""

    def run(self, pid: int, mib: int, card: int = 0, uid: str = UID) -> None:
        """A process in a container of the pod."""
        self.state.add_process(self.uuids[card], pid, mib, "play")
        folder = self.proc / str(pid)
        folder.mkdir(exist_ok=True)
        (folder / "cgroup").write_text(f"0::/kubepods/burstable/pod{uid}/{'ab' * 32}\n")

    def end(self, pid: int, card: int = 0) -> None:
        """It is gone."""
        self.state.remove_process(self.uuids[card], pid)

    def value(self, name: str, **labels: str) -> float | None:
        """A series now."""
        return self.registry.get_sample_value(name, labels)

    def used(self) -> float | None:
        """The pod's use of card 0."""
        return self.value("gpushare_pod_used_bytes", namespace="team", pod="player", uid=UID, card="0")

    def said(self) -> list[tuple[str, str]]:
        """Reasons and types of the events."""
        return [(event["reason"], event["type"]) for event in self.api.events]


@asynccontextmanager
async def rig(state: State, proc: Path, after: float = 60, *, evicts: bool = False) -> AsyncIterator[Rig]:
    """Everything wired as in the plugin."""
    api, metrics = StubApi(pods=[{"metadata": {"name": "player", "namespace": "team", "uid": UID}}]), PluginMetrics()
    registry = CollectorRegistry()
    registry.register(PluginExposition(metrics))
    session, thread = NvmlSession(None, listen=False), NvmlThread()
    try:
        await thread.run(session.renew)
        async with serve(api) as url, http_pool(url) as http:
            it = Rig(state, proc, api, registry)
            facts = [CardFacts(i, uuid, "Tesla T4", 15079, 14) for i, uuid in enumerate(it.uuids)]
            cards = NodeCards(1, "ids", "GiB", "boot", tuple(facts))
            metrics.cards, metrics.pods = lambda: cards, lambda: it.pods
            client = ApiClient(http)
            events = EventRecorder(client, "test", lambda: 0.0, random.Random(1))
            it.watch = UsageWatch(
                lambda uuid: thread.run(functools.partial(session.processes, uuid)),
                lambda: cards,
                lambda: it.pods,
                lambda: {one.uid: one for one in (*(pod.metadata for pod in it.pods), *it.others)},
                ProcessOwners(proc),
                metrics,
                events,
                UsageFlags(True, 15, Tolerance(percent=10), after, proc_root=str(proc)),
                lambda: it.now,
                lambda text: setattr(it, "published", text),
                OveruserEvictor(client, metrics, events, 60.0) if evicts else None,
            )
            yield it
    finally:
        thread.close(session.close)
        assert thread.join(30)


async def test_a_card_that_does_not_answer_is_unknown_not_idle(simulate: Simulate, tmp_path: Path) -> None:
    """The others are seen; the pod's series is gone, not 0; NVML's refusal is counted."""
    state = simulate("t4x2")
    async with rig(state, tmp_path, after=0) as node:
        node.run(7, 2000)
        node.run(9, 30, card=1, uid="11111111-2222-3333-4444-555555555555")
        await node.watch.look()
        state.lose(node.uuids[0])
        await node.watch.look()

        assert node.used() is None
        assert node.said() == [("GPUShareMemoryOveruse", "Warning")]
        over = {"namespace": "team", "pod": "player", "uid": UID, "card": "0"}
        assert node.value("gpushare_pod_overuse_bytes", **over) is None
        # What was seen last stays on the Node.
        assert node.published == f'[["{UID}",0,1024,2000]]'
        assert node.value("gpushare_nvml_errors_total", operation="processes") == 1
        lost = {"card": "0", "uuid": node.uuids[0], "model": "Tesla T4"}
        for unknown in ("card_unaccounted_bytes", "card_processes_without_figure"):
            assert node.value(f"gpushare_{unknown}", **lost) is None
        other = {"card": "1", "uuid": node.uuids[1], "model": "Tesla T4"}
        assert node.value("gpushare_card_unaccounted_bytes", **other) == 30 * MIB


async def test_invisible_processes_have_no_pod_and_are_reported(
    simulate: Simulate, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The memory of processes that are invisible without hostPID is put on no pod, and no pod is reported to use nothing."""
    state = simulate("t4x2")
    async with rig(state, tmp_path, after=0) as node:
        state.add_process(node.uuids[0], 4711, 300, "play")
        await node.watch.look()

        assert (node.used(), node.said()) == (None, [])
        mine = {"card": "0", "uuid": node.uuids[0], "model": "Tesla T4"}
        assert node.value("gpushare_card_unaccounted_bytes", **mine) is None
        assert "hostPID: true" in caplog.text


async def test_an_api_server_that_refuses_events_stops_nothing(simulate: Simulate, tmp_path: Path) -> None:
    """The metric is still there."""
    async with rig(simulate("t4x2"), tmp_path, after=0) as node:
        refusal: Any = (403, {"kind": "Status", "code": 403, "message": "no"})
        node.api.fault = lambda method, path: refusal
        node.run(7, 1253)
        await node.watch.look()

        assert node.value("gpushare_overuse_episodes_total") == 1


def other_pod() -> ObjectMeta:
    """A pod that asks for no card."""
    return ObjectMeta("miner", "other", "11111111-2222-3333-4444-555555555555")


async def test_a_process_on_a_card_not_booked_is_reported(simulate: Simulate, tmp_path: Path) -> None:
    """A pod on another's card, and one without any: reported once each until it stops; processes of the host are not accused."""
    async with rig(simulate("t4x2"), tmp_path, after=0) as node:
        node.others = [other_pod()]
        node.run(7, 5, card=1)
        node.run(8, 900, uid=other_pod().uid)
        node.run(9, 900, uid="99999999-2222-3333-4444-555555555555")
        for _ in range(3):
            await node.watch.look()

        assert sorted(event["involvedObject"]["name"] for event in node.api.events) == ["miner", "player"]
        assert {event["reason"] for event in node.api.events} == {"GPUShareCardNotBooked"}
        theirs = {"namespace": "other", "pod": "miner", "uid": other_pod().uid, "card": "0"}
        assert node.value("gpushare_pod_unbooked_card", **theirs) == 1
        assert node.value("gpushare_pod_used_bytes", **theirs) == 900 * MIB
        assert node.value("gpushare_unbooked_episodes_total") == 2
        node.end(8)
        await node.watch.look()
        assert node.value("gpushare_pod_unbooked_card", **theirs) is None
        assert len(node.api.events) == 2


OUTER = "11111111-2222-3333-4444-555555555555"
ID = "0123456789abcdef" * 4


def process(proc: Path, pid: int, group: str) -> None:
    """A process in a control group."""
    (proc / str(pid)).mkdir(parents=True)
    (proc / str(pid) / "cgroup").write_text(f"0::{group}\n")


@pytest.mark.parametrize(
    ("group", "owner"),
    [
        (f"/kubepods/pod{OUTER}/{ID}/kubelet/kubepods/pod{UID}/{ID}", UID),
        (f"/kubepods/pod{OUTER}/{ID}", None),
        ("/system.slice/x.service", None),
        (None, None),
    ],
    ids=["a node in a pod of another cluster", "another cluster", "the host", "it has just ended"],
)
def test_a_process_is_that_of_this_clusters_pod(tmp_path: Path, group: str | None, owner: str | None) -> None:
    """A process is put on a pod of this cluster, or on none."""
    if group is not None:
        process(tmp_path, 7, group)

    assert ProcessOwners(tmp_path).uses(0, [Process(7, 1)], {UID}) == [ProcessUse(0, owner, 1)]


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


def test_the_kernels_own_folder_is_understood() -> None:
    """The kernel's own proc is understood: this very process belongs to no pod that the test names."""
    assert ProcessOwners(Path("/proc")).uses(0, [Process(os.getpid(), 1)], set()) == [ProcessUse(0, None, 1)]
