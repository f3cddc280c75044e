"""Promises of gpushare.deviceplugin.cards.node_status that no other part of the watch has a share in, against a real server."""

from __future__ import annotations

import json
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

MEMORY, COUNT = "aliyun.com/gpu-mem", "aliyun.com/gpu-count"
OVERUSE = "aliyun.com/gpushare-overuse"


class NodeWithCards:
    """A node, and the cards that pods name."""

    def __init__(self) -> None:
        self.api = StubApi(nodes=[{"metadata": {"name": "n"}, "status": {"capacity": {}}}])
        self.in_use: set[int] = set()
        self.health = CardHealth(XidRules(), 60)
        self.node: NodeWriter

    @property
    def annotations(self) -> dict[str, str]:
        """The Node's."""
        found: dict[str, str] = self.api.nodes[0]["metadata"]["annotations"]
        return found

    def cards(self) -> list[tuple[int, bool]]:
        """Index and health of the published cards."""
        published = json.loads(self.annotations["aliyun.com/gpushare-cards"])
        return [(card["index"], card["healthy"]) for card in published["cards"]]

    def patches(self) -> int:
        """How often the Node was written."""
        return sum(call["method"] == "PATCH" for call in self.api.calls)


def card(letter: str, index: int = 0) -> PhysicalCard:
    """A card by the letter of its UUID."""
    return PhysicalCard(index, f"GPU-{letter}", "A100", 80_000)


@asynccontextmanager
async def published(*cards: PhysicalCard, slots: int = 2, fault: Any = None) -> AsyncIterator[NodeWithCards]:
    """The node after its first publication of these cards."""
    site = NodeWithCards()
    if fault is not None:
        site.api.fault = lambda method, path: fault(site, method)
    async with serve(site.api) as url, http_pool(url) as http:
        site.node = NodeWriter(
            ApiClient(http), "n", MemoryUnit.parse("GiB"), "boot",
            now=lambda: 0.0,
            health=site.health,
            in_use=lambda: frozenset(site.in_use),
            slots=slots,
        )  # fmt: skip
        await site.node.prepare()
        site.node.begin(cards)
        await site.node.publish()
        yield site


async def test_overuse_stands_on_the_node_until_it_ends() -> None:
    """Also on a Node that was created again, and not after the end of the plugin, which the condition shows."""
    async with published(card("a")) as site:
        site.node.show_overuse("[1]")
        for _ in range(2):
            site.annotations.pop(OVERUSE, None)
            await site.node.publish()
            assert site.annotations[OVERUSE] == "[1]"
        await site.node.end()
        (condition,) = site.api.nodes[0]["status"]["conditions"]
        assert OVERUSE not in site.annotations
        assert (condition["status"], condition["reason"]) == ("Unknown", "PluginEnded")


async def test_refused_condition_keeps_no_cards_away(caplog: pytest.LogCaptureFixture) -> None:
    """A policy of an earlier version refuses the second write; the cards are published, and one line is logged."""

    def refuse(site: NodeWithCards, method: str) -> Any:
        no = (403, {"kind": "Status", "code": 403, "message": "would change status.conditions"})
        return no if site.patches() > 1 and method == "PATCH" else None

    async with published(card("a"), slots=0, fault=refuse) as site:
        await site.node.publish()

    assert site.api.nodes[0]["status"]["capacity"][COUNT] == "1"
    assert "conditions" not in site.api.nodes[0]["status"]
    assert caplog.text.count("cannot write the condition of the node") == 1


async def test_removed_card_stays_while_a_pod_names_it() -> None:
    """A removed card keeps its amount, and neither the driver's return nor an operator's annotation brings the card back."""
    async with published(card("a"), card("b", 1)) as site:
        site.in_use = {0}
        site.health.lose("GPU-a")
        site.node.change_cards([card("b")])
        await site.node.publish()
        for is_away in (True, False):
            site.health.driver_is_away = is_away
            site.node.refresh()
            await site.node.publish()
        site.annotations["gpushare.aliyun.com/recovered"] = "0"
        await site.node.publish()
        assert (site.health.unhealthy, site.cards()) == ((), [(0, False), (1, True)])
        assert site.api.nodes[0]["status"]["capacity"][MEMORY] == "160000"

        site.in_use = set()
        for _ in range(2):
            await site.node.publish()
        assert (site.cards(), site.api.nodes[0]["status"]["capacity"][MEMORY]) == ([(1, True)], "80000")


async def test_a_card_comes_back_well_to_an_index_of_its_own() -> None:
    """Taken out is no illness; an index that another card has by now stays that card's, if both are there."""
    async with published(card("a"), card("b", 1)) as site:
        site.in_use = {0}
        for cards in ([card("b")], [card("a"), card("b", 1)]):
            site.node.change_cards(cards)
            await site.node.publish()
        assert site.cards() == [(0, True), (1, True)]

        site.in_use = set()
        for cards in ([card("c"), card("b", 1)], [card("c"), card("b", 1), card("a", 2)]):
            site.node.change_cards(cards)
            await site.node.publish()
        assert [one.uuid for one in site.node.cards.cards] == ["GPU-c", "GPU-b", "GPU-a"]
