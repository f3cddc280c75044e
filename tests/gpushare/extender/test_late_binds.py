"""One extender binds, answers are lost, and requests are done after their sender has given up: what it books must hold."""

from __future__ import annotations

import asyncio
import random
from typing import Final

import pytest

from gpushare.extender.bind import UNKNOWN_OUTCOME_SECONDS
from tests.gpushare.extender.world import Call, World

WEIGHTS: Final = {
    "create": 4, "delete": 1, "bind": 20, "do": 1, "answer": 8, "tell": 3, "give_up": 6, "late": 5, "pass_time": 6,
}  # fmt: skip


def world_of_one() -> World:
    """One extender; the wait between two questions for an outcome is the one that the world imposes."""
    return World(guarded=False, ask_seconds=0)


def step(world: World, rng: random.Random) -> None:
    """One event happens; nothing if it cannot."""
    kind = rng.choices([*WEIGHTS], [*WEIGHTS.values()])[0]
    pods, requests = sorted(world.pods), world.late if kind == "late" else world.pending()
    if kind == "create":
        name = f"p{rng.randrange(7)}"
        if all(pod["metadata"]["name"] != name for pod in world.pods.values()):
            world.create(rng.randint(3, 4), name)
    elif kind == "tell":
        world.tell(0)
    elif kind == "pass_time":
        world.pass_time(rng.choice([15, 25]))
    elif kind in ("delete", "bind") and pods:
        uid = rng.choice(pods)
        world.delete(uid) if kind == "delete" else world.bind(0, uid, rng.choice("aab"))
    elif kind in ("do", "late", "answer", "give_up") and requests:
        on_request(world, kind, rng.choice(requests))


def on_request(world: World, kind: str, call: Call) -> None:
    """It is done, maybe after its sender has given up, and answered."""
    if kind == "give_up":
        world.give_up(call)
        return
    world.do(call)
    if kind == "late":
        world.late.remove(call)
    elif kind == "answer":
        call.answered.set()


async def play(seed: int) -> tuple[list[str], int]:
    """The over-bookings at any moment; and how many pods were bound."""
    rng, world = random.Random(seed), world_of_one()
    world.start()
    try:
        for _ in range(1000):
            step(world, rng)
            await world.settle()
            if found := world.overbooked():
                return found, 0
        return [], sum(kind == "set" and bool(pod["spec"].get("nodeName")) for kind, pod in world.events)
    finally:
        await world.close()


@pytest.mark.promise("EXT-025")
@pytest.mark.parametrize("seed", range(20))
def test_no_request_that_lands_late_books_a_card_twice(seed: int) -> None:
    """A thousand steps each, drawn by a seed; and pods are bound in them."""
    found, bound = asyncio.run(play(seed))

    assert found == []
    assert bound > 3


async def test_an_answer_from_before_a_later_bind_frees_nothing() -> None:
    """The first request's outcome is asked for, and the second request binds the pod before that answer arrives."""
    world = world_of_one()
    world.start()
    uid = world.create(3, "p")
    world.tell(0)
    world.bind(0, uid, "a")
    for action in (world.give_up, world.do):
        await world.settle()
        (call,) = world.pending()
        action(call)
        call.answered.set()
    await world.settle()
    (question,) = world.pending()
    world.clock += UNKNOWN_OUTCOME_SECONDS + 1
    world.do(question)

    world.bind(0, uid, "a")
    await world.settle()
    bind = next(call for call in world.pending() if call is not question)
    world.do(bind)
    bind.answered.set()
    await world.settle()
    question.answered.set()
    await world.settle()

    assert world.pods[uid]["spec"]["nodeName"] == "a"
    assert world.extenders[0].book.assumed(uid, "a") is not None
    await world.close()
