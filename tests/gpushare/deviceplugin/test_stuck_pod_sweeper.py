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
from gpushare.model.node import Device, lay_out
from tests.servers import StubApi, http_pool, serve, status

MESSAGE = "Pod was rejected: Allocate failed due to cannot allocate unregistered device aliyun.com/gpu-mem"


def failed(name: str) -> dict[str, Any]:
    """A pod of a ReplicaSet that the kubelet turned away."""
    owner = {"kind": "ReplicaSet", "name": "web", "uid": "o", "controller": True}
    container = {"name": "c", "resources": {"limits": {"aliyun.com/gpu-mem": "2"}}}
    return {
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}", "ownerReferences": [owner]},
        "spec": {"nodeName": "rig", "containers": [container]},
        "status": {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": MESSAGE},
    }


@asynccontextmanager
async def sweeping(api: StubApi, *, delete: bool = True, **held: str) -> AsyncIterator[StuckPodSweeper]:
    """The sweeper of a node with one free card and these pods, of which its watch sees no change."""
    pods = msgspec.convert(api.pods, list[Pod])
    async with serve(api) as url, http_pool(url) as http:
        client = ApiClient(http)
        events = EventRecorder(client, "test", lambda: 0.0, random.Random(1))
        yield StuckPodSweeper(
            client, lambda uid: lay_out("", (Device(0, 14),), ()), lambda: pods, lambda: True,
            lambda: {f"uid-{name}": why for name, why in held.items()}, PluginMetrics(), events, lambda: 0.0,
            delete=delete,
        )  # fmt: skip


async def test_nothing_is_deleted_without_the_flag_which_is_named() -> None:
    """Reported once, however often it is looked at; a pod that is held for good is reported with its own reason."""
    api = StubApi(pods=[failed("owned"), failed("held") | {"status": {"phase": "Pending"}}])
    async with sweeping(api, delete=False, held="its ids lie on two cards") as sweeper:
        await sweeper.look()
        await sweeper.look()

        owned, held = (event["message"] for event in api.events)
        assert "(the plugin does so with --delete-unadmitted)" in owned
        assert held.endswith("The reason: its ids lie on two cards")
        assert (len(api.pods), sweeper.metrics.unadmitted_pods["reported"]) == (2, 2)


async def test_nothing_is_stuck_while_the_kubelet_lacks_our_list() -> None:
    """The reason has not passed: a replacement would fail as well."""
    api = StubApi(pods=[failed("owned")])
    async with sweeping(api) as sweeper:
        sweeper.is_served = lambda: False
        await sweeper.look()

        assert (len(api.pods), api.events) == (1, [])


@pytest.mark.parametrize(("uid", "deleted"), [("uid-of-the-next", 0), ("uid-owned", 1)])
async def test_one_deletion_of_this_very_pod_is_tried(uid: str, deleted: int) -> None:
    """While the watch is behind a pod is not deleted twice, nor is the pod of the same name that came after it."""
    api = StubApi(pods=[failed("owned")])
    async with sweeping(api) as sweeper:
        api.pods[0]["metadata"]["uid"] = uid
        await sweeper.look()
        await sweeper.look()

        assert len(api.pods) == 1 - deleted
        assert len([call for call in api.calls if call["method"] == "DELETE"]) == 1
        assert sweeper.metrics.unadmitted_pods["deleted"] == deleted


async def test_a_node_that_always_refuses_does_not_loop() -> None:
    """The sweeper deletes a limited number of pods a minute. The rest is reported immediately and deleted later."""
    api = StubApi(pods=[failed(f"p{number}") for number in range(DELETIONS_A_MINUTE + 2)])
    async with sweeping(api) as sweeper:
        await sweeper.look()
        assert (len(api.pods), sweeper.metrics.unadmitted_pods["reported"]) == (2, DELETIONS_A_MINUTE + 2)

        sweeper.clock = lambda: 61.0
        await sweeper.look()
        assert api.pods == []


async def test_a_deletion_that_is_refused_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A refused deletion is logged once, with the file that grants the right if a role lacks it."""
    api = StubApi(pods=[failed("owned")])
    lacks = 'pods "owned" is forbidden: User "system:serviceaccount:a:b" cannot delete resource "pods"'
    async with sweeping(api) as sweeper:
        for message in (lacks, 'pods "owned" is forbidden: the webhook of a policy says no'):
            no = status(403, message)
            api.fault = lambda method, path, no=no: no if method == "DELETE" else None
            await sweeper.look()
            await sweeper.look()

    logged = [text for text in caplog.messages if "cannot delete stuck pods" in text]
    assert ["delete-unadmitted-rbac.yaml" in text for text in logged] == [True, False]
