"""Promises of gpushare.deviceplugin.cards.node_status in slots mode, against a stub API server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from gpushare.deviceplugin.cards.node_status import NodeWriter
from gpushare.deviceplugin.core.announced_cards import PhysicalCard, has_left
from gpushare.deviceplugin.core.health import CardHealth, XidRules
from gpushare.kube.client import ApiClient
from gpushare.model.cards import CardFacts, NodeCards
from gpushare.model.quantity import MemoryUnit
from tests.servers import StubApi, http_pool, serve

MEMORY, COUNT = "aliyun.com/gpu-mem", "aliyun.com/gpu-count"


@dataclass
class Site:
    """A node in slots mode, and the pods' cards."""

    api: StubApi
    in_use: set[int] = field(default_factory=set)
    node: NodeWriter = field(init=False)
    health: CardHealth = field(default_factory=lambda: CardHealth(XidRules(), 60))

    @property
    def status(self) -> dict[str, Any]:
        """The node's, as stored."""
        return dict(self.api.nodes[0]["status"])

    def cards(self) -> list[tuple[int, bool]]:
        """Index and health of the published cards."""
        published = json.loads(self.api.nodes[0]["metadata"]["annotations"]["aliyun.com/gpushare-cards"])
        assert (published["mode"], published["unit"]) == ("slots", "MiB")
        return [(card["index"], card["healthy"]) for card in published["cards"]]

    def patches(self) -> int:
        """How often the node was written."""
        return sum(call["method"] == "PATCH" for call in self.api.calls)


def card(letter: str, index: int = 0, mib: int = 80_000) -> PhysicalCard:
    """A card by the letter of its UUID."""
    return PhysicalCard(index, f"GPU-{letter * 8}-0000-0000-0000-000000000000", "A100", mib)


@asynccontextmanager
async def slotted(
    *cards: PhysicalCard, api: StubApi | None = None, in_use: set[int] | None = None
) -> AsyncIterator[Site]:
    """A published node with these cards and two slots each."""
    site = Site(api or StubApi(nodes=[{"metadata": {"name": "rig"}, "status": {"capacity": {}}}]), in_use or set())
    async with serve(site.api) as url, http_pool(url) as http:
        site.node = NodeWriter(
            ApiClient(http), "rig", MemoryUnit.parse("GiB"), "boot",
            now=lambda: 0.0,
            health=site.health,
            in_use=lambda: frozenset(site.in_use),
            slots=2,
        )  # fmt: skip
        await site.node.prepare()
        site.node.begin(cards)
        await site.node.publish()
        yield site


async def test_the_exact_memory_is_written_beside_the_count() -> None:
    """In MiB, whatever the unit, to capacity and allocatable; no kubelet counts it."""
    async with slotted(card("a"), card("b", 1, 143_771)) as site:
        wanted = {MEMORY: "223771", COUNT: "2"}

        assert (site.status["capacity"], site.status["allocatable"]) == (wanted, wanted)


async def test_amount_in_the_api_servers_spelling_is_the_same() -> None:
    """The amount 160000 is the same as the API server's 160k: otherwise the plugin would write it every ten seconds."""
    async with slotted(card("a"), card("b", 1)) as site:
        site.status["capacity"][MEMORY] = "160k"
        before = site.patches()
        await site.node.publish()

        assert site.patches() == before


async def test_an_amount_that_was_set_to_zero_is_written_again() -> None:
    """A kubelet that starts without its checkpoint sets every extended resource to 0."""
    async with slotted(card("a")) as site:
        site.status["capacity"][MEMORY] = "0"
        await site.node.publish()

        assert site.status["capacity"][MEMORY] == "80000"


async def test_removed_card_keeps_its_amount_while_a_pod_names_it() -> None:
    """A removed card and its amount stay while a running pod names the card, and go when the pod has gone."""
    async with slotted(card("a"), card("b", 1)) as site:
        site.in_use = {0}
        site.node.change_cards([card("b")])
        await site.node.publish()
        assert (site.cards(), site.status["capacity"][MEMORY]) == ([(0, False), (1, True)], "160000")

        await site.node.publish()
        assert site.cards() == [(0, False), (1, True)]
        site.in_use = set()
        await site.node.publish()
        await site.node.publish()
        assert (site.cards(), site.status["capacity"][MEMORY]) == ([(1, True)], "80000")


async def test_a_card_that_comes_back_is_well_again() -> None:
    """Taken out is no illness; it has its own index."""
    async with slotted(card("a"), card("b", 1), in_use={0}) as site:
        for cards in ([card("b")], [card("a"), card("b", 1)]):
            site.node.change_cards(cards)
            await site.node.publish()

        assert site.cards() == [(0, True), (1, True)]


async def test_a_card_comes_back_to_no_index_that_another_has() -> None:
    """The index of a card that was taken out belongs to the card that has it now, also when both are there."""
    async with slotted(card("a"), card("b", 1)) as site:
        for physical in ([card("c"), card("b", 1)], [card("c"), card("b", 1), card("a", 2)]):
            site.node.change_cards(physical)
            await site.node.publish()

        assert [one.uuid[4] for one in site.node.cards.cards] == ["c", "b", "a"]


async def test_removed_card_is_remembered_over_a_plugin_restart() -> None:
    """By the annotation, while a pod names it."""
    async with slotted(card("a"), card("b", 1)) as site:
        pass
    async with slotted(card("b"), api=site.api, in_use={0}) as again:
        assert (again.cards(), again.status["capacity"][MEMORY]) == ([(0, False), (1, True)], "160000")


async def test_lost_and_removed_card_goes_with_its_last_pod() -> None:
    """Whatever else is wrong with it."""
    async with slotted(card("a"), card("b", 1), in_use={0}) as site:
        site.health.lose(card("a").uuid)
        site.node.refresh()
        site.node.change_cards([card("b")])
        await site.node.publish()
        assert site.cards() == [(0, False), (1, True)]
        site.in_use = set()
        await site.node.publish()

        assert (site.cards(), site.status["capacity"][MEMORY]) == ([(1, True)], "80000")


async def test_removed_card_stays_removed_after_a_driver_absence() -> None:
    """The driver's return is not its own."""
    async with slotted(card("a"), card("b", 1), in_use={0}) as site:
        site.node.change_cards([card("b")])
        await site.node.publish()
        for is_away in (True, False):
            site.health.driver_is_away = is_away
            site.node.refresh()
            await site.node.publish()

        assert site.cards() == [(0, False), (1, True)]


async def test_no_annotation_brings_back_a_removed_card() -> None:
    """An operator's annotation means that a card is well, not that it is there."""
    async with slotted(card("a"), card("b", 1), in_use={0}) as site:
        site.health.lose(card("a").uuid)
        site.node.change_cards([card("b")])
        await site.node.publish()
        site.api.nodes[0]["metadata"]["annotations"]["gpushare.aliyun.com/recovered"] = "0"
        await site.node.publish()

        assert site.health.sick == ()
        assert site.cards() == [(0, False), (1, True)]


def test_card_has_left_once_it_is_absent_and_no_pod_names_it() -> None:
    """A sick card that is there has not."""
    facts = [CardFacts(0, "GPU-a", "A100", 80_000, 80_000, 2), CardFacts(1, "GPU-b", "A100", 80_000, 80_000, 2)]
    cards = NodeCards(1, "slots", "MiB", "", tuple(facts))

    assert (has_left(cards, {"GPU-b"}, frozenset()), has_left(cards, {"GPU-b"}, frozenset({0}))) == (True, False)
    assert not has_left(cards, {"GPU-a", "GPU-b"}, frozenset())
