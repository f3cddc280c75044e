"""Promises of gpushare.deviceplugin.overuser_evictor: real pynvml on simulated cards, a real API server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.gpushare.deviceplugin.test_usage_watch import Rig, Simulate, rig

OTHER = "11111111-2222-4333-8444-555555555555"
PATH = "/api/v1/namespaces/team/pods/player/eviction"
BUDGET = (429, {"kind": "Status", "code": 429, "message": "it would violate the pod's disruption budget."})
NO_RIGHT = (403, {"kind": "Status", "code": 403, "message": 'User "x" cannot create resource "pods/eviction"'})


async def looks(node: Rig, *times: int) -> None:
    """One look at each of these moments."""
    for node.now in times:
        await node.watch.look()


def tried(node: Rig) -> int:
    """How often an eviction was asked for."""
    return sum(call["path"] == PATH for call in node.api.calls)


def texts(node: Rig, reason: str) -> list[str]:
    """The texts of the events with this reason."""
    return [event["message"] for event in node.api.events if event["reason"] == reason]


@pytest.mark.parametrize(
    ("refusal", "why"),
    [
        (BUDGET, "a PodDisruptionBudget allows no eviction now"),
        (NO_RIGHT, "the plugin may not evict pods: apply components/evict-overusers"),
        ((429, {"kind": "Status", "code": 429, "message": "too many requests"}), "too many requests"),
        ((500, {"kind": "Status", "code": 500, "message": "more than one budget"}), "more than one budget"),
    ],
)
async def test_refused_eviction_is_reported_once_and_tried_again(
    simulate: Simulate, tmp_path: Path, caplog: pytest.LogCaptureFixture, refusal: Any, why: str
) -> None:
    """At most once in a minute, until it is allowed."""
    async with rig(simulate("t4x2"), tmp_path, after=0, evicts=True) as node:
        node.api.fault = lambda method, path: refusal if path == PATH else None
        node.run(7, 1253)
        await looks(node, *range(0, 181, 15))
        assert tried(node) == 3
        (text,) = texts(node, "GPUShareOveruserStays")
        assert why in text
        assert caplog.text.count("not evicted pod=team/player") == 1
        assert node.value("gpushare_overuse_evictions_total", outcome="refused") == 3

        node.api.fault = lambda method, path: None
        await looks(node, 240)
        assert node.value("gpushare_overuse_evictions_total", outcome="evicted") == 1


async def test_pod_that_is_another_by_now_is_left_alone(simulate: Simulate, tmp_path: Path) -> None:
    """Its name was taken by a pod of another uid: that one stays, and no eviction is counted."""
    async with rig(simulate("t4x2"), tmp_path, after=0, evicts=True) as node:
        node.api.pods[0]["metadata"]["uid"] = "another"
        node.run(7, 1253)
        await looks(node, *range(0, 300, 15))

        assert (tried(node), len(node.api.pods)) == (1, 1)
        assert node.value("gpushare_overuse_evictions_total", outcome="evicted") == 0


async def test_one_pod_of_a_node_is_evicted_in_a_minute(simulate: Simulate, tmp_path: Path) -> None:
    """The worst first: a wrong tolerance must not empty the node at once."""
    async with rig(simulate("t4x2"), tmp_path, after=0, evicts=True) as node:
        (first,) = node.pods
        worse = msgspec.structs.replace(
            first, metadata=msgspec.structs.replace(first.metadata, name="worse", uid=OTHER)
        )
        node.pods.append(worse)
        node.api.pods.append({"metadata": {"name": "worse", "namespace": "team", "uid": OTHER}})
        node.run(7, 1253)
        node.run(8, 2000, uid=OTHER)
        await looks(node, 0, 30, 60, 75, 119)
        assert [pod["metadata"]["name"] for pod in node.api.pods] == ["player"]
        await looks(node, 120)
        assert node.api.pods == []
