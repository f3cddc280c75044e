"""Promises of gpushare.deviceplugin.takeover."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from gpushare.deviceplugin import takeover
from gpushare.deviceplugin.allocation.node_view import list_all
from gpushare.deviceplugin.core.node_pods import NodePods
from gpushare.deviceplugin.node_status import NodeWriter
from gpushare.deviceplugin.takeover import end_pods_of_former_boot
from gpushare.kube.client import ApiClient
from gpushare.kube.event_recorder import EventRecorder
from gpushare.model.cards import CardFacts, NodeCards, encode_cards
from gpushare.model.quantity import MemoryUnit
from tests.gpushare.deviceplugin.rig import holder
from tests.servers import StubApi, http_pool, serve, status


def node(before: str | None, now: str) -> dict[str, Any]:
    """The Node as the plugin finds it: the boot in its cards annotation, and the boot that its kubelet reports."""
    cards = NodeCards(1, "ids", "GiB", before or "", (CardFacts(0, "GPU-a", "T4", 15_360, 15),))
    annotations = {} if before is None else {"aliyun.com/gpushare-cards": encode_cards(cards)}
    return {
        "metadata": {"name": "rig", "annotations": annotations},
        "status": {"capacity": {}, "nodeInfo": {"bootID": now}},
    }


def lingering(name: str) -> dict[str, Any]:
    """A pod that failed, with a container that is still shown as running."""
    statuses = [{"name": "c", "state": {"running": {}}}]
    return holder(name, 0) | {"status": {"phase": "Failed", "containerStatuses": statuses}}


async def start(api: StubApi) -> list[str]:
    """Start as the plugin's main does; the pods that still hold a card."""
    async with serve(api) as url, http_pool(url) as http:
        client, pods = ApiClient(http), NodePods()
        own = NodeWriter(client, "rig", MemoryUnit.parse("GiB"), "kernel", now=lambda: 0.0)
        await list_all(pods, client, "rig")
        await own.prepare()
        # Names of events only.
        await end_pods_of_former_boot(client, own, pods, EventRecorder(client, "test", time.time, random.Random(1)))
        return [one.metadata.name for one in pods.in_admission_order()]


@pytest.mark.parametrize(
    ("before", "now", "marked"),
    [("B", "B", None), ("", "B", None), (None, "B", None), ("A", "", "kernel")],
    ids=["no new boot", "no boot is known", "no annotation", "the kubelet reports no boot"],
)
async def test_a_pod_keeps_its_card_without_a_new_boot(before: str | None, now: str, marked: str | None) -> None:
    """The processes may run if the boot is the same or the former one is not known. The kernel's own id counts if need be."""
    api = StubApi([node(before, now)], [lingering("shut")])

    assert await start(api) == ["shut"] * (marked is None)
    assert api.pods[0]["metadata"]["annotations"].get("ALIYUN_COM_GPU_MEM_ENDED") == marked


async def test_a_lost_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """An API server that does not answer delays the start; a pod that it refuses to change keeps its card."""
    monkeypatch.setattr(takeover, "RETRY_SECONDS", 0)
    answers = [status(500, "etcd is away"), status(429, "later")]

    def fault(method: str, path: str) -> Any:
        if method == "PATCH" and path.endswith("/pods/refused"):
            return status(403, "no")
        return answers.pop() if method == "PATCH" and path.endswith("/pods/shut") and answers else None

    api = StubApi([node("A", "B")], [lingering("shut"), lingering("refused")], fault=fault)

    assert (await start(api), answers) == (["refused"], [])
    assert [one["involvedObject"]["name"] for one in api.events] == ["shut"]
