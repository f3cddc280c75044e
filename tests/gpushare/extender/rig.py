"""An extender wired as in its main, on a small API server; and nodes and pods as that shows them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import time
from collections.abc import AsyncIterator, Callable, Collection
from typing import Any

import msgspec

from gpushare import wire
from gpushare.extender.bind import Binder
from gpushare.extender.core.book import Book
from gpushare.extender.core.filter_cache import FilterCache
from gpushare.extender.core.messages import BindingArgs
from gpushare.extender.core.workload import Workload
from gpushare.extender.extender_metrics import ExtenderMetrics
from gpushare.extender.follow.audit import Audit
from gpushare.extender.follow.controller import Controller
from gpushare.extender.follow.wake import Waker
from gpushare.extender.live_page import LivePage
from gpushare.extender.routes import Routes
from gpushare.extender.verbs import Verbs
from gpushare.kube.client import ApiClient
from gpushare.kube.event_recorder import EventRecorder
from gpushare.kube.reflector import Contact
from gpushare.manifests import Node, Pod
from gpushare.model.cards import CardFacts, NodeCards, encode_cards
from tests.gpushare.serving.edges import edge
from tests.servers import Caller, StubApi, http_pool, plain_http, serve, until

MEMORY, COUNT, INDEX = "aliyun.com/gpu-mem", "aliyun.com/gpu-count", "ALIYUN_COM_GPU_MEM_IDX"
Object = dict[str, Any]


def node(name: str = "n", *cards: int) -> Object:
    """A node of the Go plugin with equal cards."""
    capacity = {MEMORY: str(sum(cards)), COUNT: str(len(cards))}
    return {"kind": "Node", "metadata": {"name": name}, "status": {"capacity": capacity}}


def pod(
    name: str, units: object = 3, on: str | None = None, card: object = None, uid: str = "", **annotations: str
) -> Object:
    """A pod of namespace d; on a card if one is given."""
    annotations |= {} if card is None else {INDEX: str(card)}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "d", "uid": uid or f"uid-{name}", "annotations": annotations},
        "spec": {"nodeName": on, "containers": [{"name": "c", "resources": {"limits": {MEMORY: str(units)}}}]},
        "status": {"phase": "Running" if on else "Pending"},
    }


def publishing(name: str, *cards: CardFacts, unit: str = "GiB", mode: str = "ids") -> Object:
    """A node of our plugin, which publishes its cards."""
    item = node(name, *(card.units for card in cards))
    item["metadata"]["annotations"] = {wire.ANNOTATION_CARDS: encode_cards(NodeCards(1, mode, unit, "boot", cards))}
    return item


class Extender:
    """The parts of one extender. ``now`` is its clock, if a test gives one; ``called`` are the outcomes of its calls of pods."""

    def __init__(
        self,
        api: StubApi,
        client: ApiClient,
        *,
        policy: str = wire.POLICY_BINPACK,
        workload: Workload | None = None,
        ask_seconds: float = 0.01,
        patience: float = 30.0,
        now: float | None = None,
        **of_verbs: Any,
    ) -> None:
        self.api, self.client, self.book, self.ready = api, client, Book(workload), True
        self.now = now
        self.url, self.http = "", Caller("")
        self.called: list[bool] = []
        numbers, clock = itertools.count(10**18), self._clock
        self.metrics = ExtenderMetrics(time.perf_counter_ns)
        events = EventRecorder(client, "gpushare", lambda: 0.0, random.Random(1))
        self.controller = Controller(client, self.book, events)
        self.binder = Binder(
            client, self.book, clock_ns=lambda: next(numbers), monotonic=clock, policy=policy, ask_seconds=ask_seconds
        )
        self.verbs = Verbs(
            self.book, self.binder, FilterCache(), is_ready=lambda: self.ready, policy=policy, monotonic=clock,
            metrics=self.metrics, **of_verbs,
        )  # fmt: skip
        self.waker = Waker(
            client, self.book, self.verbs.filter_cache, policy=policy, clock_ns=lambda: 7, monotonic=clock,
            on_call=self.called.append,
        )  # fmt: skip
        self.audit = Audit(
            client, self.book, self.metrics, is_ready=self.controller.is_ready, come_to=self.controller.come_to,
            is_under_way=self.binder.is_under_way, monotonic=clock, interval=0.01, patience=patience, poll=0.01,
        )  # fmt: skip
        self.page = LivePage(
            self.book, self.verbs.filter_cache, self.verbs.decisions, policy=policy, is_ready=lambda: self.ready,
            contacts=lambda: {"nodes": Contact(time.monotonic(), 1), "pods": Contact()}, monotonic=clock,
        )  # fmt: skip
        self.routes = Routes(self.book, self.verbs, lambda: self.ready, self.page)

    def _clock(self) -> float:
        return time.monotonic() if self.now is None else self.now

    def knows(self, item: Object) -> None:
        """The book gets an object as it is shown."""
        if item["kind"] == "Node":
            self.book.set_node(msgspec.convert(item, Node))
        else:
            self.book.set_pod(msgspec.convert(item, Pod))

    async def bind(self, name: str, to: str = "n") -> None:
        """Order a pod to a node."""
        await self.binder.bind(BindingArgs(name, "d", f"uid-{name}", to))

    def used(self, name: str = "n") -> list[int]:
        """Units booked on each card of a node."""
        return [device.used for device in self.book.snapshot().nodes[name].devices]

    def sent(self, method: str) -> list[Object]:
        """The requests of that method that reached the API server."""
        return [call for call in self.api.calls if call["method"] == method]

    async def caught_up(self) -> None:
        """The watches stand and have come as far as there is anything."""
        await until(lambda: {watch.plural for watch in self.api.watches} >= {"nodes", "pods"})
        come = asyncio.create_task(self.controller.come_to(self.api.version, self.api.version, 30))
        await until(lambda: self.api.bookmark() or come.done())
        assert await come


@contextlib.asynccontextmanager
async def extender(
    *objects: Object,
    known: Collection[str] = ("Node", "Pod"),
    fault: Callable[[str, str], Any] | None = None,
    **more: Any,
) -> AsyncIterator[Extender]:
    """An extender whose book knows the objects of these kinds, and that follows no watch."""
    api = StubApi(page=2)
    for item in objects:
        api.put(item)
    api.fault = fault or api.fault
    async with serve(api) as url, http_pool(url) as http:
        one = Extender(api, ApiClient(http), **more)
        for item in objects:
            if item["kind"] in known:
                one.knows(item)
        try:
            yield one
        finally:
            api.released.set()
            await one.binder.close()


@contextlib.asynccontextmanager
async def following(*objects: Object, **more: Any) -> AsyncIterator[Extender]:
    """An extender that follows the API server, and has caught up."""
    async with extender(*objects, known=(), **more) as one:
        running = asyncio.create_task(one.controller.run())
        try:
            await one.caught_up()
            yield one
        finally:
            running.cancel()
            one.api.disconnect(forget=False)
            await asyncio.wait([running])


@contextlib.asynccontextmanager
async def served(one: Extender) -> AsyncIterator[Extender]:
    """The same, with its paths at ``url`` and a client ``http`` for them."""
    async with edge(one.routes) as one.url, plain_http(one.url) as one.http:
        yield one


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


def refuse(one: Extender, name: str, units: int, *nodes: str) -> None:
    """A pod that waits, for which a scheduler asked these nodes."""
    one.knows(pod(name, units))
    one.verbs.filter(json.dumps({"Pod": pod(name, units), "NodeNames": nodes}).encode())


@contextlib.asynccontextmanager
async def with_page(*pods: Object) -> AsyncIterator[Extender]:
    """An extender with a live page about n1, which has two healthy cards of 14 units, and n2, which has an unhealthy card."""
    nodes = cards_node("n1", 14, 14), cards_node("n2", 10, unhealthy=(0,), model="Tesla P4")
    async with extender(*nodes, *pods) as one, served(one):
        live = asyncio.create_task(one.page.run())
        try:
            yield one
        finally:
            live.cancel()
            await asyncio.wait([live])
