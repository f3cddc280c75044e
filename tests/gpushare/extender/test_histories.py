"""Extenders bind at each moment of a history that a seed draws: answers are lost, requests land late, books are behind.

No extender holds a lease, and a test decides what each knows of the others, and when a request is done, answered or reported: the
guard alone decides.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import pytest

from gpushare import wire
from gpushare.extender.bind import UNKNOWN_OUTCOME_SECONDS, Binder
from gpushare.extender.core.book import Book
from gpushare.extender.core.messages import BindingArgs
from gpushare.extender.node_guard import NodeGuards
from gpushare.kube.api_errors import UnreachableError
from gpushare.kube.client import ApiClient, refusal
from gpushare.manifests import Node, Pod
from tests.gpushare.extender.rig import INDEX, MEMORY, Object, node, pod
from tests.servers import StubApi, status

UNITS: Final = 4
SEEDS: Final = 20
OF_ONE: Final = {
    "create": 4, "delete": 1, "bind": 20, "do": 1, "answer": 8, "tell": 3, "give_up": 6, "late": 5, "pass_time": 6,
}  # fmt: skip
OF_SEVERAL: Final = {
    "create": 4, "delete": 3, "bind": 10, "do": 4, "answer": 24, "tell": 14, "refuse": 2, "give_up": 2, "late": 2, "start": 0.1,
}  # fmt: skip


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


def world_of_one() -> World:
    """One extender; the wait between two questions for an outcome is the one that the world imposes."""
    world = World(guarded=False, ask_seconds=0)
    world.start()
    return world


def world_of_two(*, guarded: bool = True) -> World:
    """Two extenders; more may start."""
    world = World(guarded=guarded)
    world.start()
    world.start()
    return world


def step(world: World, rng: random.Random, weights: Mapping[str, float]) -> None:
    """One event happens; nothing if it cannot."""
    kind = rng.choices([*weights], [*weights.values()])[0]
    pods, requests = sorted(world.pods), world.late if kind == "late" else world.pending()
    if kind == "create":
        # Some take the name of a pod that is gone.
        name = f"p{rng.randrange(7)}"
        if all(pod["metadata"]["name"] != name for pod in world.pods.values()):
            world.create(rng.randint(2, 4), name)
    elif kind == "tell":
        world.tell(rng.randrange(len(world.extenders)))
    elif kind == "pass_time":
        world.pass_time(rng.choice([15, 25]))
    elif kind == "start" and len(world.extenders) < 4:
        world.start()
    elif kind in ("delete", "bind") and pods:
        on_pod(world, kind, pods, rng)
    elif kind in ("do", "late", "answer", "refuse", "give_up") and requests:
        on_request(world, kind, rng.choice(requests))


def on_pod(world: World, kind: str, pods: list[str], rng: random.Random) -> None:
    """It is deleted, or ordered to a node. Most orders are for pods that wait; some come twice, or too late."""
    if kind == "delete":
        world.delete(rng.choice(pods))
        return
    waiting = [uid for uid in pods if not world.pods[uid]["spec"].get("nodeName")]
    chosen = waiting if waiting and rng.randrange(4) else pods
    world.bind(rng.randrange(len(world.extenders)), rng.choice(chosen), rng.choice("aab"))


def on_request(world: World, kind: str, call: Call) -> None:
    """It is done, maybe after its sender has given up, or refused; and answered; or its sender gives up."""
    if kind == "give_up":
        world.give_up(call)
        return
    (world.refuse if kind == "refuse" else world.do)(call)
    if kind == "late":
        world.late.remove(call)
    elif kind != "do":
        call.answered.set()


async def play(world: World, weights: Mapping[str, float], seed: int) -> tuple[list[str], int]:
    """A thousand steps: the over-bookings at any moment; and how many pods were bound."""
    rng = random.Random(seed)
    try:
        for _ in range(1000):
            step(world, rng, weights)
            await world.settle()
            if found := world.overbooked():
                return found, 0
        return [], sum(event["type"] == "MODIFIED" for event in world.events)
    finally:
        await world.close()


@pytest.mark.promise("API-009", "EXT-025")
@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize(
    ("start", "weights", "least"),
    [(world_of_one, OF_ONE, 3), (world_of_two, OF_SEVERAL, 10)],
    ids=["one extender", "several extenders"],
)
async def test_no_card_is_booked_twice(
    start: Callable[[], World], weights: Mapping[str, float], least: int, seed: int
) -> None:
    """Extenders that are paused anywhere, restart with nothing in memory, get events late, and are asked for the same pods.

    Requests land after their senders have given up; and pods are bound in each history.
    """
    found, bound = await play(start(), weights, seed)

    assert found == []
    assert bound > least


async def test_without_the_guard_a_card_is_booked_twice() -> None:
    """The proof that these histories can show it."""
    assert any([(await play(world_of_two(guarded=False), OF_SEVERAL, seed))[0] for seed in range(SEEDS)])


async def answered_in_turn(world: World, count: int, kind: str = "answer") -> Call:
    """The next requests one after the other; the last of them."""
    for _ in range(count):
        await world.settle()
        (call,) = world.pending()
        on_request(world, kind, call)
    await world.settle()
    return call


async def test_an_answer_from_before_a_later_bind_frees_nothing() -> None:
    """The first request's outcome is asked for, and the second request binds the pod before that answer arrives."""
    world = world_of_one()
    uid = world.create(3, "p")
    world.tell(0)
    world.bind(0, uid, "a")
    await answered_in_turn(world, 1, "give_up")
    await answered_in_turn(world, 1)
    (question,) = world.pending()
    world.clock += UNKNOWN_OUTCOME_SECONDS + 1
    world.do(question)

    world.bind(0, uid, "a")
    await world.settle()
    on_request(world, "answer", next(call for call in world.pending() if call is not question))
    await world.settle()
    question.answered.set()
    await world.settle()

    assert world.pods[uid]["spec"]["nodeName"] == "a"
    assert world.extenders[0].book.assumed(uid, "a") is not None
    await world.close()


async def test_failed_reservation_of_a_bound_pod_keeps_its_booking() -> None:
    """The pod is ordered again before our copy shows it bound, and the guard cannot be written."""
    world = World(guarded=True)
    world.start()
    uid = world.create(3, "p")
    world.tell(0)
    world.bind(0, uid, "a")
    await answered_in_turn(world, 3)
    assert world.pods[uid]["spec"]["nodeName"] == "a"

    world.bind(0, uid, "a")
    call = await answered_in_turn(world, 1, "refuse")

    assert "leases" in call.path
    assert world.extenders[0].book.assumed(uid, "a") is not None
    await world.close()


async def reserved_by_one_of_two() -> tuple[World, str]:
    """The reservation of a pod of a whole card took effect, and its answer was lost. The other extender does not know the pod."""
    world = World(guarded=True, ask_seconds=0)
    world.start()
    world.start()
    lost = world.create(UNITS, "lost")
    for name in ("p", "q"):
        world.create(UNITS, name)
    world.extenders[1].told = 1
    for extender in (0, 0, 0, 1, 1):
        world.tell(extender)
    world.bind(0, lost, "a")
    await answered_in_turn(world, 1)
    write = await answered_in_turn(world, 1, "give_up")
    world.do(write)
    return world, lost


async def both_are_bound(world: World, extender: int) -> bool:
    """The extender can fill both cards of the node with the other two pods."""
    for uid in [uid for uid, one in world.pods.items() if one["metadata"]["name"] in ("p", "q")]:
        world.bind(extender, uid, "a")
        await world.settle()
        while calls := world.pending():
            on_request(world, "answer", calls[0])
            await world.settle()
        world.tell(extender)
    await world.close()
    return all(one["spec"].get("nodeName") for one in world.pods.values() if one["metadata"]["name"] in ("p", "q"))


async def test_a_reservation_without_a_binding_holds_no_card() -> None:
    """The extender sent no Binding, as the answer to its reservation was lost."""
    world, _ = await reserved_by_one_of_two()

    assert await both_are_bound(world, 0)


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_pod_that_is_being_deleted_holds_no_card(is_known: bool) -> None:
    """A finalizer keeps the pod, which no extender can bind any more; another extender has its reservation."""
    world, uid = await reserved_by_one_of_two()
    world.pods[uid]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if is_known:
        world.extenders[1].book.set_pod(msgspec.convert(world.pods[uid], Pod))

    assert await both_are_bound(world, 1)
