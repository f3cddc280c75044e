"""An API server in which a test decides the next event: a request is done, it is answered, a change is reported."""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from gpushare import wire
from gpushare.extender.bind import Binder
from gpushare.extender.core.book import Book
from gpushare.extender.core.messages import BindingArgs
from gpushare.extender.node_guard import NodeGuards
from gpushare.kube.api_errors import UnreachableError
from gpushare.kube.client import ApiClient, refusal
from gpushare.manifests import Node, Pod
from tests.gpushare.extender.rig import INDEX, MEMORY, Object, node, pod
from tests.servers import StubApi, status

UNITS = 4


@dataclass
class Call:
    """A request on its way: to be done, then to be answered."""

    extender: int
    method: str
    path: str
    body: Any
    sent: float = 0.0
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    response: tuple[int, dict[str, Any]] | None = None


class Client(ApiClient):
    """One extender's way to the API server."""

    def __init__(self, world: World, extender: int) -> None:
        self._world, self._extender = world, extender

    async def request(self, method: str, path: str, *, body: Any = None, **_: Any) -> bytes:
        """Wait until the test lets it through and back."""
        call = Call(self._extender, method, path, json.loads(json.dumps(body or {})), self._world.clock)
        self._world.calls.append(call)
        await call.answered.wait()
        if call.response is None:
            raise UnreachableError("the test lost the answer", may_have_happened=True)
        status, document = call.response
        if status >= 400:
            raise refusal(status, msgspec.json.encode(document), f"{method} {path}", {})
        return msgspec.json.encode(document)


@dataclass
class Extender:
    """A book, a binder, and the number of events that it got."""

    book: Book
    binder: Binder
    told: int = 0
    version: int = 0
    tasks: list[asyncio.Task[None]] = field(default_factory=list)


class World:
    """Nodes a and b with two cards each, and the extenders that follow an API server."""

    def __init__(self, *, guarded: bool, ask_seconds: float = 1.0) -> None:
        self.guarded, self.ask_seconds = guarded, ask_seconds
        self.api = StubApi()
        self.clock = 0.0
        self.calls: list[Call] = []
        self.late: list[Call] = []
        self.extenders: list[Extender] = []
        self._numbers = itertools.count(1)

    @property
    def pods(self) -> dict[str, Object]:
        """By uid."""
        return {one["metadata"]["uid"]: one for one in self.api.pods}

    @property
    def events(self) -> list[Object]:
        """The changes of pods, in their order."""
        return [event for _, plural, event in self.api.history if plural == "pods"]

    def start(self) -> None:
        """One more extender, with the API's present state as its book."""
        number = len(self.extenders)
        book, client = Book(), Client(self, number)
        for name in ("a", "b"):
            book.set_node(msgspec.convert(node(name, UNITS, UNITS), Node))
        for one in self.api.pods:
            book.set_pod(msgspec.convert(one, Pod))
        guards = None
        if self.guarded:
            guards = NodeGuards(client, f"extender-{number}", book.fate_of, self._come_to(number))
        numbers = itertools.count(10**18)
        binder = Binder(
            client, book, clock_ns=lambda: next(numbers), monotonic=lambda: self.clock, guards=guards,
            ask_seconds=self.ask_seconds,
        )  # fmt: skip
        self.extenders.append(Extender(book, binder, len(self.events), self.api.version))

    def _come_to(self, number: int) -> Callable[[int, float], Any]:
        async def come_to(version: int, seconds: float) -> bool:
            return self.extenders[number].version >= version

        return come_to

    def create(self, units: int, name: str) -> str:
        """A pending pod; its uid."""
        uid = f"u{next(self._numbers)}"
        self.api.put(pod(name, units, uid=uid))
        return uid

    def delete(self, uid: str) -> None:
        """The pod is gone."""
        self.api.delete("pods", self.pods[uid]["metadata"]["name"])

    def bind(self, extender: int, uid: str, node: str) -> None:
        """A scheduler orders it."""
        order = BindingArgs(self.pods[uid]["metadata"]["name"], "d", uid, node)
        task = asyncio.ensure_future(self.extenders[extender].binder.bind(order))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.extenders[extender].tasks.append(task)

    def tell(self, extender: int) -> None:
        """The extender hears of the next event."""
        one, events = self.extenders[extender], self.events
        if one.told < len(events):
            item = msgspec.convert(events[one.told]["object"], Pod)
            if events[one.told]["type"] == "DELETED":
                one.book.remove_pod(item.metadata)
            else:
                one.book.set_pod(item)
            one.told += 1
            one.version = int(item.metadata.resource_version)

    def do(self, call: Call) -> None:
        """The API server does what is asked; its answer is of now, and may arrive behind a later bind."""
        if call.response is None:
            if call.path.endswith("/leases"):
                call.body["metadata"]["namespace"] = wire.GUARDS_NAMESPACE
            call.response = copy.deepcopy(self.api.answer(call.method, call.path, "", call.body))

    def refuse(self, call: Call) -> None:
        """Admission refuses, for now."""
        if call.response is None:
            call.response = status(403, "not now")

    def give_up(self, call: Call) -> None:
        """Its sender hears nothing; it may still be done, much later."""
        call.answered.set()
        if call.response is None:
            self.late.append(call)

    def pass_time(self, seconds: float) -> None:
        """A client waits for 30 seconds, and the API server works on a request for 60."""
        self.clock += seconds
        for call in self.pending():
            if self.clock - call.sent > 30:
                self.give_up(call)
        self.late = [call for call in self.late if self.clock - call.sent <= 60]

    def pending(self) -> list[Call]:
        """Requests with a waiting caller."""
        return [call for call in self.calls if not call.answered.is_set()]

    async def settle(self) -> None:
        """Let all extenders run until they wait for the API server."""
        for _ in range(20):
            await asyncio.sleep(0)

    async def close(self) -> None:
        """End everything."""
        for one in self.extenders:
            for task in one.tasks:
                task.cancel()
        for call in self.calls:
            call.answered.set()
        await self.settle()
        for one in self.extenders:
            for task in one.binder.in_flight.values():
                task.cancel()
            await one.binder.close()

    def overbooked(self) -> list[str]:
        """Cards on which more is bound than they have: by the annotations, as the API server has them."""
        used: dict[tuple[str, str], int] = {}
        for one in self.api.pods:
            if one["spec"].get("nodeName"):
                card = (one["spec"]["nodeName"], one["metadata"]["annotations"][INDEX])
                units = int(one["spec"]["containers"][0]["resources"]["limits"][MEMORY])
                used[card] = used.get(card, 0) + units
        return [f"{node}/{card}: {units}" for (node, card), units in used.items() if units > UNITS]
