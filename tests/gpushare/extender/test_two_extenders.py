"""Several extenders bind together, none holds a lease, a test decides what each knows of the others: the guard alone decides."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.gpushare.extender.world import Call, World

SEEDS: Final = 20

STEP = st.one_of(
    st.tuples(st.just("create"), st.integers(1, 4), st.integers(0, 2)),
    st.tuples(st.just("bind"), st.integers(0, 3), st.integers(0, 9), st.sampled_from(["a", "a", "b"])),
    st.tuples(st.sampled_from(["delete", "do", "answer", "refuse", "give_up", "late"]), st.integers(0, 9)),
    st.tuples(st.just("tell"), st.integers(0, 3)),
    st.tuples(st.just("start")),
)
STEPS = st.lists(STEP, min_size=10, max_size=120)
Step = tuple[Any, ...]


def step(world: World, kind: str, *numbers: Any) -> None:
    """One event happens; nothing if it cannot."""
    pods, pending = sorted(world.pods), world.pending()
    if kind == "create":
        units, fresh = numbers
        # Some take the name of a pod that is gone.
        name = f"p{len(world.events) if fresh else 0}"
        if all(pod["metadata"]["name"] != name for pod in world.pods.values()):
            world.create(units, name)
    elif kind == "tell":
        world.tell(numbers[0] % len(world.extenders))
    elif kind == "start" and len(world.extenders) < 4:
        world.start()
    elif kind == "late" and world.late:
        world.do(world.late.pop(numbers[0] % len(world.late)))
    elif kind in ("delete", "bind") and pods:
        on_pod(world, kind, pods, *numbers)
    elif kind in ("do", "answer", "refuse", "give_up") and pending:
        on_call(world, kind, pending[numbers[0] % len(pending)])


def on_pod(world: World, kind: str, pods: list[str], *numbers: Any) -> None:
    """It is deleted, or ordered to a node."""
    if kind == "delete":
        world.delete(pods[numbers[0] % len(pods)])
    else:
        who, which, node = numbers
        # Most orders are for pods that wait; some come twice, or too late.
        waiting = [uid for uid in pods if not world.pods[uid]["spec"].get("nodeName")]
        chosen = waiting if waiting and which % 4 else pods
        world.bind(who % len(world.extenders), chosen[which % len(chosen)], node)


def on_call(world: World, kind: str, call: Call) -> None:
    """It is done, or refused; and answered; or its sender gives up."""
    if kind == "give_up":
        world.give_up(call)
        return
    (world.refuse if kind == "refuse" else world.do)(call)
    if kind != "do":
        call.answered.set()


async def play(steps: Iterable[Step], *, guarded: bool) -> tuple[list[str], int]:
    """The over-bookings at any moment; and how many pods were bound."""
    world = World(guarded=guarded)
    world.start()
    world.start()
    try:
        for one in steps:
            step(world, *one)
            await world.settle()
            if found := world.overbooked():
                return found, 0
        return [], sum(kind == "set" and bool(pod["spec"].get("nodeName")) for kind, pod in world.events)
    finally:
        await world.close()


@pytest.mark.promise("API-009")
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(STEPS)
def test_no_card_is_booked_twice_whoever_binds_when(steps: list[tuple[Any, ...]]) -> None:
    """Extenders that are paused anywhere, restart with nothing in memory, get events late, and are asked for the same pods."""
    assert asyncio.run(play(steps, guarded=True))[0] == []


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_card_is_booked_twice_in_long_histories(seed: int) -> None:
    """A thousand steps each, drawn by a seed; and pods are bound in them."""
    found, bound = asyncio.run(play(drawn(seed, 1000), guarded=True))

    assert found == []
    assert bound > 10


async def test_failed_reservation_of_a_bound_pod_keeps_its_booking() -> None:
    """The pod is ordered again before our copy shows it bound, and the guard cannot be written."""
    world = World(guarded=True)
    world.start()
    uid = world.create(3, "p")
    world.tell(0)
    world.bind(0, uid, "a")
    for _ in range(3):
        await world.settle()
        (call,) = world.pending()
        on_call(world, "answer", call)
    await world.settle()
    assert world.pods[uid]["spec"]["nodeName"] == "a"

    world.bind(0, uid, "a")
    await world.settle()
    (call,) = world.pending()
    on_call(world, "refuse", call)
    await world.settle()

    assert "leases" in call.path
    assert world.extenders[0].book.assumed(uid, "a") is not None
    await world.close()


def test_without_the_guard_a_card_is_booked_twice() -> None:
    """The proof that these histories can show it."""
    assert any(asyncio.run(play(drawn(seed, 1000), guarded=False))[0] for seed in range(SEEDS))


def drawn(seed: int, count: int) -> Iterator[Step]:
    """Steps by a seed: nothing depends on them being hard to guess."""
    rng = random.Random(seed)
    weights = {
        "create": 4, "delete": 3, "bind": 10, "do": 4, "answer": 24, "tell": 14, "refuse": 2, "give_up": 2, "late": 2,
    }  # fmt: skip
    kinds = [kind for kind, weight in weights.items() for _ in range(weight)]
    for _ in range(count):
        kind = rng.choice(kinds) if rng.random() > 0.002 else "start"
        first, second = rng.randrange(100), rng.randrange(100)
        if kind == "create":
            yield kind, rng.randint(1, 4), rng.randint(0, 2)
        elif kind == "bind":
            yield kind, first, second, rng.choice("aab")
        else:
            yield (kind,) if kind == "start" else (kind, first)
