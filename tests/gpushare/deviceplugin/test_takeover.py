"""Promises of gpushare.deviceplugin.takeover."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from gpushare import wire
from gpushare.deviceplugin import takeover
from gpushare.deviceplugin.allocation.node_view import list_all
from gpushare.deviceplugin.cards.node_status import NodeWriter
from gpushare.deviceplugin.core.node_pods import NodePods
from gpushare.deviceplugin.kubelet_records import CHECKPOINT, KubeletRecords
from gpushare.deviceplugin.takeover import end_pods_of_former_boot
from gpushare.kube.client import ApiClient
from gpushare.kube.event_recorder import EventRecorder
from gpushare.model.cards import CardFacts, NodeCards, encode_cards
from gpushare.model.quantity import MemoryUnit
from tests.servers import StubApi, http_pool, serve, status

MEMORY, SLOT = "aliyun.com/gpu-mem", "aliyun.com/gpu-slot"


def checkpoint(*registered: str, given: str | None = None) -> bytes:
    """A kubelet's, with these resources; ``given`` has a device in some container."""
    entries = [{"PodUID": "u", "ContainerName": "c", "ResourceName": given, "DeviceIDs": {"-1": ["x"]}}]
    data = {"PodDeviceEntries": entries if given else None, "RegisteredDevices": {name: ["x"] for name in registered}}
    return json.dumps({"Data": data, "Checksum": 1}).encode()


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        (checkpoint(MEMORY), True),
        (checkpoint(SLOT, MEMORY), True),
        (checkpoint(SLOT, given=MEMORY), True),
        (checkpoint(SLOT), False),
        (checkpoint("nvidia.com/gpu", given="nvidia.com/gpu"), False),
        (b"", False),
        (b"{", False),
        (b'{"Data": {"RegisteredDevices": {"aliyun.com/gpu-mem": null}, "PodDeviceEntries": null}}', True),
        (b'{"Data": {"RegisteredDevices": null}}', False),
    ],
)
def test_kubelet_owns_the_resources_it_counts_or_gave_away(tmp_path: Path, content: bytes, answer: bool) -> None:
    """By its checkpoint; an unreadable one proves nothing."""
    (tmp_path / CHECKPOINT).write_bytes(content)

    assert KubeletRecords(tmp_path / "none.sock", tmp_path).owns(MEMORY) is answer


def test_a_checkpoint_that_may_not_be_read_is_no_answer(tmp_path: Path) -> None:
    """The kubelet can read it, so slots mode must not go on as if it owned nothing."""
    (tmp_path / CHECKPOINT).mkdir()

    with pytest.raises(OSError, match=CHECKPOINT):
        KubeletRecords(tmp_path / "none.sock", tmp_path).owns(MEMORY)


ENDED = "ALIYUN_COM_GPU_MEM_ENDED"


def node(before: str | None, now: str) -> dict[str, Any]:
    """The Node as the plugin finds it: the boot in its cards annotation, and the boot that its kubelet reports."""
    cards = NodeCards(1, "ids", "GiB", before or "", (CardFacts(0, "GPU-a", "T4", 15_360, 15),))
    annotations = {} if before is None else {"aliyun.com/gpushare-cards": encode_cards(cards)}
    return {
        "metadata": {"name": "n", "annotations": annotations},
        "status": {"capacity": {}, "nodeInfo": {"bootID": now}},
    }


def pod(name: str, phase: str, state: str = "running") -> dict[str, Any]:
    """A pod on the card of the node."""
    return {
        "metadata": {
            "name": name, "namespace": "ns", "uid": name, "resourceVersion": "5",
            "annotations": {"ALIYUN_COM_GPU_MEM_IDX": "0"},
        },
        "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"limits": {"aliyun.com/gpu-mem": "7"}}}]},
        "status": {"phase": phase, "containerStatuses": [{"name": "c", "state": {state: {}}}]},
    }  # fmt: skip


async def start(api: StubApi) -> list[str]:
    """Start as the plugin's main does; the pods that still hold a card."""
    async with serve(api) as url, http_pool(url) as http:
        client, pods = ApiClient(http), NodePods()
        own = NodeWriter(client, "n", MemoryUnit.parse("GiB"), "kernel", now=lambda: 0.0)
        await list_all(pods, client, "n")
        await own.prepare()
        # Names of events only.
        events = EventRecorder(client, "test", time.time, random.Random(1))
        await end_pods_of_former_boot(client, own, pods, events)
        return [one.metadata.name for one in pods.in_admission_order()]


def ended(api: StubApi) -> dict[str, str]:
    """The boot on each pod that has one."""
    return {one["metadata"]["name"]: text for one in api.pods if (text := one["metadata"]["annotations"].get(ENDED))}


async def test_another_boot_ends_the_pods_that_linger() -> None:
    """The boot is written on them, with an event each; pods that may still run keep their cards."""
    pods = [
        pod("shut", "Failed"),
        pod("done", "Succeeded"),
        pod("runs", "Running"),
        pod("gone", "Failed", "terminated"),
    ]
    api = StubApi([node("A", "B")], pods)

    assert await start(api) == ["runs"]
    assert ended(api) == {"shut": "B", "done": "B"}
    assert [(one["reason"], one["involvedObject"]["name"]) for one in api.events] == [
        (wire.EVENT_ENDED_BY_BOOT, "done"),
        (wire.EVENT_ENDED_BY_BOOT, "shut"),
    ]


@pytest.mark.parametrize(
    ("before", "now", "marked"),
    [("B", "B", {}), ("", "B", {}), (None, "B", {}), ("A", "", {"shut": "kernel"})],
    ids=["no new boot", "no boot is known", "no annotation", "the kubelet reports no boot"],
)
async def test_a_pod_keeps_its_card_without_a_new_boot(before: str | None, now: str, marked: dict[str, str]) -> None:
    """The processes may run if the boot is the same or the former one is not known. The kernel's own id counts if need be."""
    api = StubApi([node(before, now)], [pod("shut", "Failed")])

    assert await start(api) == ([] if marked else ["shut"])
    assert ended(api) == marked


async def test_a_lost_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """An API server that does not answer delays the start; a pod that it refuses to change keeps its card."""
    monkeypatch.setattr(takeover, "RETRY_SECONDS", 0)
    answers = [status(500, "etcd is away"), status(429, "later")]

    def fault(method: str, path: str) -> Any:
        if method == "PATCH" and path.endswith("/pods/refused"):
            return status(403, "no")
        return answers.pop() if method == "PATCH" and path.endswith("/pods/shut") and answers else None

    api = StubApi([node("A", "B")], [pod("shut", "Failed"), pod("refused", "Failed")], fault=fault)

    assert await start(api) == ["refused"]
    assert (ended(api), answers) == ({"shut": "B"}, [])
