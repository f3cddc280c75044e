"""Promises of gpushare.deviceplugin.cards.node_status about the condition and the overuse annotation, against a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gpushare.deviceplugin.cards.node_status import NodeWriter
from gpushare.deviceplugin.core.announced_cards import PhysicalCard
from gpushare.deviceplugin.core.health import CardHealth, XidRules
from gpushare.kube.client import ApiClient
from gpushare.model.quantity import MemoryUnit
from tests.servers import StubApi, http_pool, serve

OVERUSE = "aliyun.com/gpushare-overuse"


class Site:
    """A node with one card."""

    def __init__(self) -> None:
        self.api = StubApi(nodes=[{"metadata": {"name": "n"}, "status": {"capacity": {}}}])
        self.health = CardHealth(XidRules(), 0)
        self.now = 0.0
        self.node: NodeWriter

    def condition(self) -> dict[str, str]:
        """The one condition of the Node."""
        (condition,) = self.api.nodes[0]["status"]["conditions"]
        return dict(condition)

    def states(self) -> tuple[str, str]:
        """Its status and its reason."""
        condition = self.condition()
        return condition["status"], condition["reason"]

    def patches(self) -> int:
        """How often the Node was written."""
        return sum(call["method"] == "PATCH" for call in self.api.calls)


@asynccontextmanager
async def published() -> AsyncIterator[Site]:
    """The node after its first publication."""
    site = Site()
    async with serve(site.api) as url, http_pool(url) as http:
        site.node = NodeWriter(
            ApiClient(http), "n", MemoryUnit.parse("GiB"), "boot", now=lambda: site.now, health=site.health
        )
        await site.node.prepare()
        site.node.begin([PhysicalCard(0, "GPU-0", "Tesla T4", 15079)])
        await site.node.publish()
        yield site


async def test_condition_follows_the_cards_and_the_plugin() -> None:
    """True, False with the reason while a card is sick, Unknown once the plugin has ended."""
    async with published() as site:
        assert site.states() == ("True", "CardsHealthy")
        site.health.note_xid("GPU-0", 79)
        site.node.refresh()
        await site.node.publish()
        assert site.states() == ("False", "CardsSick")
        assert site.condition()["message"] == "card 0 (Tesla T4, GPU-0) is sick: Xid 79"
        await site.node.report_no_cards("no driver")
        assert site.states() == ("False", "NoCards")
        await site.node.end()
        assert site.states() == ("Unknown", "PluginEnded")


async def test_a_node_that_does_not_change_gets_heartbeats_alone() -> None:
    """Many looks, no write; one after ten minutes."""
    async with published() as site:
        first = site.patches()
        for site.now in range(0, 600, 60):
            await site.node.publish()
        assert site.patches() == first
        site.now = 600
        await site.node.publish()
        assert (site.patches(), site.condition()["lastHeartbeatTime"]) == (first + 1, "1970-01-01T00:10:00Z")


async def test_overuse_stands_on_the_node_until_it_ends() -> None:
    """Also on a Node that was created again, and not after the end of the plugin."""
    async with published() as site:
        site.node.show_overuse("[1]")
        await site.node.publish()
        assert site.api.nodes[0]["metadata"]["annotations"][OVERUSE] == "[1]"
        del site.api.nodes[0]["metadata"]["annotations"][OVERUSE]
        await site.node.publish()
        assert site.api.nodes[0]["metadata"]["annotations"][OVERUSE] == "[1]"
        await site.node.end()
        assert OVERUSE not in site.api.nodes[0]["metadata"]["annotations"]


async def test_refused_condition_keeps_no_cards_away(caplog: pytest.LogCaptureFixture) -> None:
    """A policy of an earlier version refuses the second write; the cards are published, and one line is logged."""
    site = Site()
    refusal: Any = (403, {"kind": "Status", "code": 403, "message": "would change status.conditions"})
    site.api.fault = lambda method, path: refusal if site.patches() > 1 and method == "PATCH" else None
    async with serve(site.api) as url, http_pool(url) as http:
        node = NodeWriter(ApiClient(http), "n", MemoryUnit.parse("GiB"), "boot", now=lambda: 0.0)
        await node.prepare()
        node.begin([PhysicalCard(0, "GPU-0", "Tesla T4", 15079)])
        await node.publish()
        await node.publish()

    assert site.api.nodes[0]["status"]["capacity"]["aliyun.com/gpu-count"] == "1"
    assert "conditions" not in site.api.nodes[0]["status"]
    assert caplog.text.count("cannot write the condition of the node") == 1
