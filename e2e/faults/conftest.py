"""A cluster for each module of faults, and its node with cards that fail; each case finds and leaves it healthy."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from clusters.api.api_client import Object
from clusters.api.resources import NODES
from clusters.api.waiting import eventually
from clusters.provider import Cluster, load_nodes
from e2e import spec
from e2e.checkers.overcommit import is_over
from e2e.checkers.pod_requests import card_of, units_of
from e2e.observer import Observer, OwnCluster, observing
from e2e.site.node_cards import Card, amount, described
from e2e.summary import add_note

_NODES: Final = Path(__file__).parents[2] / "clusters" / "simulated" / "faults.yaml"
_HERE: Final = Path(__file__).parent
_NUMBERS = itertools.count(1)
NODE: Final = "unhealthy"


class NodeUnderFaults:
    """``measured`` gets the seconds that the node needed to show each change."""

    def __init__(self, observer: Observer, measured: Callable[[str, float], None]) -> None:
        self.observer = observer
        self.cluster = observer.cluster
        self._measured = measured

    async def command(self, *arguments: str) -> str:
        """``fake-nvml`` on the node."""
        return await self.cluster.fake_nvml(NODE, *arguments)

    async def node(self) -> Object:
        """As the API has it."""
        return await self.cluster.api.get(NODES, NODE)

    async def allocatable(self) -> int:
        """Units that pods may use."""
        return amount(await self.node(), spec.RESOURCE_MEMORY, "allocatable")

    async def facts(self) -> list[Card]:
        """The plugin's verdict on each card."""
        found = described(await self.node())
        return list(found.cards.values()) if found else []

    async def unhealthy(self) -> dict[int, str]:
        """The cards that are not healthy, and why."""
        return {card.index: card.reason for card in await self.facts() if not card.healthy}

    async def units(self) -> dict[int, int]:
        """Units of each card."""
        return {card.index: card.units for card in await self.facts()}

    async def indices(self) -> dict[str, int]:
        """Index of each card, by its UUID."""
        return {card.uuid: card.index for card in await self.facts()}

    async def shows(self, what: str, *unhealthy: int, since: float | None = None) -> None:
        """Wait until the cards ``unhealthy`` are so, and no others, in the annotation and in allocatable; measured, from now.

        Of an unhealthy card the units that its pods have stay allocatable, as kube-scheduler counts these pods.
        """
        started = time.monotonic() if since is None else since
        units = await self.units()
        left = sum(amount for index, amount in units.items() if index not in unhealthy)

        async def seen() -> tuple[set[int], int]:
            pods = [
                pod for pod in await self.observer.pods() if pod["spec"].get("nodeName") == NODE and not is_over(pod)
            ]
            held = sum(units_of(pod) for pod in pods if card_of(pod) in unhealthy)
            return set(await self.unhealthy()), await self.allocatable() - held

        what_is_due = f"cards {unhealthy} are unhealthy, {left} units left beside those that their pods have"
        await eventually(seen, lambda found: found == (set(unhealthy), left), what_is_due)
        self._measured(what, time.monotonic() - started)

    async def heal(self) -> None:
        """Every fault is repaired, and an operator writes so. Each command is a process: a card that is healthy needs none."""
        shown = json.loads(await self.command("show", "-o", "json"))
        if shown["faults"]:
            await self.command("faults", "clear")
        if shown["init_fails"]:
            await self.command("init-fails", "none")
        for card in shown["cards"]:
            if card["lost"] or card["recovery_action"] != 0:
                await self.command("repair", card["uuid"])
        await eventually(self._believe, lambda unhealthy: not unhealthy, "all cards of the node are healthy")
        await eventually(self._is_whole, bool, "all units of the node may be used")

    async def _believe(self) -> dict[int, str]:
        unhealthy = await self.unhealthy()
        if unhealthy:
            word = {"metadata": {"annotations": {spec.NODE_RECOVERED: ",".join(map(str, unhealthy))}}}
            await self.cluster.api.patch(NODES, NODE, word)
            await asyncio.sleep(0.2)
        return unhealthy

    async def _is_whole(self) -> bool:
        units = await self.units()
        return bool(units) and await self.allocatable() == sum(units.values())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A cluster for each module is much to ask for on real nodes; e2e/scenarios/test_unhealthy_card.py is one case for all."""
    mark = pytest.mark.minutes_on_kind(5, "a cluster of its own, with a node of four cards")
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(mark)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def fault_cluster(own: OwnCluster) -> AsyncIterator[Cluster]:
    """Two nodes."""
    async with own(load_nodes(_NODES)) as cluster:
        yield cluster


@pytest_asyncio.fixture(loop_scope="session")
async def faults(request: pytest.FixtureRequest, fault_cluster: Cluster) -> AsyncIterator[NodeUnderFaults]:
    """A namespace of the case's own; the cards are healthy before and after."""
    async with observing(fault_cluster, f"faults-{next(_NUMBERS)}") as observer:
        stage = NodeUnderFaults(observer, lambda what, seconds: add_note(request, "fault", [seconds, what]))
        await stage.heal()
        try:
            yield stage
        finally:
            await stage.heal()
