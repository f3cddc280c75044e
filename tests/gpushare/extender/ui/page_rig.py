"""An extender with its page, over a book that a test fills."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

from gpushare.model.cards import CardFacts
from tests.gpushare.extender import rig
from tests.gpushare.extender.rig import Extender, Object, pod, publishing

PAGE = "/gpushare-scheduler/ui"


def cards_node(
    name: str, *units: int, unhealthy: tuple[int, ...] = (), model: str = "Tesla T4", reason: str = ""
) -> Object:
    """A node of our plugin, with cards of these units."""
    cards = (
        CardFacts(
            at, f"GPU-{name}-{at}", model, size * 1024, size, 0, at not in unhealthy, reason if at in unhealthy else ""
        )
        for at, size in enumerate(units)
    )
    return publishing(name, *cards)


def run_pod(one: Extender, name: str, units: int, on: str, card: int) -> None:
    """A pod that the API server shows on a card."""
    one.knows(in_default(pod(name, units, on, card)))


def refuse(one: Extender, name: str, units: int, *nodes: str) -> None:
    """A pod that waits, for which a scheduler asked these nodes."""
    waiting = in_default(pod(name, units))
    one.knows(waiting)
    one.verbs.filter(json.dumps({"Pod": waiting, "NodeNames": nodes}).encode())


def in_default(item: Object) -> Object:
    """The pod in the namespace default."""
    item["metadata"]["namespace"] = "default"
    return item


@contextlib.asynccontextmanager
async def extender(*pods: Object) -> AsyncIterator[Extender]:
    """Two nodes: n1 with two healthy cards of 14 units, and n2 with an unhealthy card."""
    nodes = cards_node("n1", 14, 14), cards_node("n2", 10, unhealthy=(0,), model="Tesla P4")
    async with rig.extender(*nodes, *pods) as one, rig.served(one):
        live = asyncio.create_task(one.page.run())
        try:
            yield one
        finally:
            live.cancel()
            await asyncio.wait([live])
