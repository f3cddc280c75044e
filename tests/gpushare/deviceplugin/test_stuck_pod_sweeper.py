"""Promises of gpushare.deviceplugin.stuck_pod_sweeper, on a real API server."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from gpushare.deviceplugin.core.plugin_metrics import PluginMetrics
from gpushare.deviceplugin.stuck_pod_sweeper import DELETIONS_A_MINUTE, StuckPodSweeper
from gpushare.kube.client import ApiClient
from gpushare.kube.event_recorder import EventRecorder
from gpushare.manifests import Pod
from gpushare.model.cards import CardFacts, NodeCards
from gpushare.model.node import Booking, devices_of_cards, lay_out
from tests.servers import StubApi, http_pool, serve

CARDS = NodeCards(1, "ids", "GiB", "boot", (CardFacts(0, "GPU-0", "Tesla T4", 15079, 14),))
MESSAGE = "Pod was rejected: Allocate failed due to cannot allocate unregistered device aliyun.com/gpu-mem"


def failed(name: str, controller: str = "ReplicaSet") -> dict[str, Any]:
    """A pod that the kubelet turned away; without a controller for ""."""
    owners = [{"kind": controller, "name": "web", "uid": "o", "controller": True}] if controller else None
    return {
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}", "ownerReferences": owners},
        "spec": {
            "nodeName": "rig",
            "containers": [{"name": "c", "resources": {"limits": {"aliyun.com/gpu-mem": "2"}}}],
        },
        "status": {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": MESSAGE},
    }


class Rig:
    """A plugin's sweeper, and what it sees."""

    def __init__(self, api: StubApi) -> None:
        self.api = api
        self.metrics = PluginMetrics()
        self.now = 0.0
        self.is_served = True
        self.held: dict[str, str] = {}
        self.there: list[Booking] = []
        self.sweeper: StuckPodSweeper
        self.catch_up()

    def catch_up(self) -> None:
        """The watch shows what the API has."""
        self.seen = msgspec.convert(self.api.pods, list[Pod])

    def names(self) -> list[str]:
        """The pods that the API has."""
        return [pod["metadata"]["name"] for pod in self.api.pods]

    def said(self) -> dict[str, str]:
        """By pod, the one event on it."""
        found = {event["involvedObject"]["name"]: event["message"] for event in self.api.events}
        assert len(found) == len(self.api.events)
        return found

    def counted(self, action: str) -> int:
        """The metric."""
        return self.metrics.unadmitted_pods[action]


@asynccontextmanager
async def rig(*pods: dict[str, Any], delete: bool = True) -> AsyncIterator[Rig]:
    """The sweeper on a server with these pods."""
    api = StubApi(pods=list(pods))
    async with serve(api) as url, http_pool(url) as http:
        it, client = Rig(api), ApiClient(http)
        it.sweeper = StuckPodSweeper(
            client,
            lambda uid: lay_out("", tuple(devices_of_cards(CARDS)), it.there),
            lambda: it.seen,
            lambda: it.is_served,
            lambda: it.held,
            it.metrics,
            EventRecorder(client, "test", lambda: 0.0, random.Random(1)),
            lambda: it.now,
            delete=delete,
        )
        yield it


async def test_nothing_is_deleted_without_the_flag_which_is_named() -> None:
    """Reported once, however often it is looked at; a pod that is held for good is reported with its own reason."""
    held = failed("held") | {"status": {"phase": "Pending"}}
    async with rig(failed("owned"), held, delete=False) as node:
        node.held = {"uid-held": "its ids lie on two cards"}
        await node.sweeper.look()
        await node.sweeper.look()

        assert node.names() == ["owned", "held"]
        assert "(the plugin does so with --delete-unadmitted)" in node.said()["owned"]
        assert node.said()["held"].endswith("The reason: its ids lie on two cards")
        assert node.counted("reported") == 2


async def test_nothing_is_stuck_while_the_kubelet_lacks_our_list() -> None:
    """The reason has not passed: a replacement would fail as well."""
    async with rig(failed("owned")) as node:
        node.is_served = False
        await node.sweeper.look()
        assert (node.names(), node.said()) == (["owned"], {})

        node.is_served = True
        await node.sweeper.look()
        assert node.names() == []


@pytest.mark.parametrize(("uid", "deleted"), [("uid-of-the-next", 0), ("uid-owned", 1)])
async def test_one_deletion_of_this_very_pod_is_tried(uid: str, deleted: int) -> None:
    """While the watch is behind a pod is not deleted twice, nor is the pod of the same name that came after it."""
    async with rig(failed("owned")) as node:
        node.api.pods[0]["metadata"]["uid"] = uid
        await node.sweeper.look()
        await node.sweeper.look()

        assert node.names() == ["owned"] * (1 - deleted)
        assert len([call for call in node.api.calls if call["method"] == "DELETE"]) == 1
        assert node.counted("deleted") == deleted


async def test_a_node_that_always_refuses_does_not_loop() -> None:
    """The sweeper deletes a limited number of pods a minute. The rest is reported immediately and deleted later."""
    pods = [failed(f"p{number}") for number in range(DELETIONS_A_MINUTE + 2)]
    async with rig(*pods) as node:
        await node.sweeper.look()
        assert (len(node.names()), node.counted("reported")) == (2, DELETIONS_A_MINUTE + 2)

        node.now = 61
        node.catch_up()
        await node.sweeper.look()
        assert node.names() == []
