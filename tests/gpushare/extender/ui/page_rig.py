"""An extender with its page, wired as in its main, over a book that a test fills."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from gpushare import wire
from gpushare.extender.bind import Binder
from gpushare.extender.core.book import Book
from gpushare.extender.core.filter_cache import FilterCache
from gpushare.extender.routes import Routes
from gpushare.extender.ui.live_page import LivePage
from gpushare.extender.verbs import Verbs
from gpushare.kube.client import ApiClient
from gpushare.kube.reflector import Contact
from gpushare.manifests import Node
from tests.gpushare.extender.core.booked import pod
from tests.gpushare.serving.edges import edge
from tests.servers import Caller, StubApi, http_pool, plain_http, serve

PAGE = "/gpushare-scheduler/ui"
Document = dict[str, Any]


def cards_node(
    name: str, *units: int, unhealthy: tuple[int, ...] = (), model: str = "Tesla T4", reason: str = ""
) -> Node:
    """A node of our plugin, with cards of these units."""
    cards = [
        {"index": at, "uuid": f"GPU-{name}-{at}", "model": model, "mib": size * 1024, "units": size, "slots": 0,
         "healthy": at not in unhealthy, "reason": reason if at in unhealthy else "", "numa": 0}
        for at, size in enumerate(units)
    ]  # fmt: skip
    described = json.dumps({"v": 1, "mode": "ids", "unit": "GiB", "boot": "b", "cards": cards})
    capacity = {wire.RESOURCE_MEMORY: str(sum(units)), wire.RESOURCE_COUNT: str(len(units))}
    document = {
        "metadata": {"name": name, "annotations": {wire.ANNOTATION_CARDS: described}},
        "status": {"capacity": capacity},
    }
    return msgspec.convert(document, Node)


@dataclass
class Extender:
    """The parts of one extender, with the address at which it serves."""

    book: Book
    verbs: Verbs
    page: LivePage
    routes: Routes = field(init=False)
    ready: bool = True
    url: str = ""
    http: Caller = field(default_factory=plain_http)

    def run_pod(self, name: str, units: int, on: str, card: int) -> None:
        """A pod that the API server shows on a card."""
        self.book.set_pod(pod(name, units, on=on, card=card, phase="Running"))

    def refuse(self, name: str, units: int, *nodes: str) -> None:
        """A pod that waits, for which a scheduler asked these nodes."""
        waiting = pod(name, units)
        self.book.set_pod(waiting)
        metadata = {"name": name, "namespace": "default", "uid": name}
        spec = {"containers": [{"name": "c", "resources": {"limits": {wire.RESOURCE_MEMORY: units}}}]}
        self.verbs.filter(json.dumps({"Pod": {"metadata": metadata, "spec": spec}, "NodeNames": nodes}).encode())


@contextlib.asynccontextmanager
async def extender(*, has_page: bool = True, api: StubApi | None = None) -> AsyncIterator[Extender]:
    """Two nodes: n1 with two healthy cards of 14 units, and n2 with an unhealthy card."""
    async with serve(api or StubApi()) as address, http_pool(address) as to_api:
        book, filter_cache = Book(), FilterCache()
        binder = Binder(ApiClient(to_api), book, clock_ns=time.time_ns, monotonic=time.monotonic)
        verbs = Verbs(
            book, binder, filter_cache, is_ready=lambda: one.ready, policy="binpack", monotonic=time.monotonic
        )
        page = LivePage(
            book, filter_cache, verbs.decisions, policy="binpack", is_ready=lambda: one.ready, monotonic=time.monotonic,
            contacts=lambda: {"nodes": Contact(time.monotonic(), 1), "pods": Contact()},
        )  # fmt: skip
        one = Extender(book, verbs, page)
        book.set_node(cards_node("n1", 14, 14))
        book.set_node(cards_node("n2", 10, unhealthy=(0,), model="Tesla P4"))
        one.routes = Routes(book, verbs, lambda: one.ready, page if has_page else None)
        async with edge(one.routes) as one.url, plain_http(one.url) as one.http:
            live = asyncio.create_task(page.run())
            try:
                yield one
            finally:
                live.cancel()
                await asyncio.wait([live])
                await binder.close()
