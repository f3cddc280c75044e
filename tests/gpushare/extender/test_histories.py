"""Extenders bind at each moment of a history that a seed draws: answers are lost, requests land late, books are behind.

No extender holds a lease, and a test decides what each knows of the others: the guard alone decides.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final

import pytest

from gpushare.extender.bind import UNKNOWN_OUTCOME_SECONDS
from tests.gpushare.extender.world import Call, World

SEEDS: Final = 20
OF_ONE: Final = {
    "create": 4, "delete": 1, "bind": 20, "do": 1, "answer": 8, "tell": 3, "give_up": 6, "late": 5, "pass_time": 6,
}  # fmt: skip
OF_SEVERAL: Final = {
    "create": 4, "delete": 3, "bind": 10, "do": 4, "answer": 24, "tell": 14, "refuse": 2, "give_up": 2, "late": 2, "start": 0.1,
}  # fmt: skip


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
