"""The consequences if a bind fails, or only its answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from e2e.parity.recording_extender import Answer, Call, let_through
from e2e.parity.scheduler_under_test import play, stage
from e2e.parity.sides import Both, Side


@pytest.mark.promise("G2-10")
async def test_failed_bind_gives_the_room_back_and_is_tried_again(both: Both) -> None:
    """A failed bind is a SchedulerError with the extender's text, frees the room, and is tried again."""

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 10}, bindVerb="bind") as it:
            failures = ["card is gone", "card is still gone"]

            it.extender.on(bind=lambda call: Answer({"Error": failures.pop(0)}) if failures else it.bind(call))
            await it.pod("p1", 10)
            condition = await it.condition("p1", text="card is gone")
            event = await it.event("p1", "FailedScheduling", text="card is gone")
            node = await it.bound("p1")
            await it.event("p1", "Scheduled")
            return [it.extender.verbs(), condition, event, node]

    seen = await both.same(observe)
    assert seen[0] == ["filter", "bind"] * 3


@pytest.mark.promise("EXT-025", "G2-06")
async def test_bound_though_the_answer_never_came(both: Both) -> None:
    """A pod that is bound though the call failed is not tried again, and an event shows the failure."""

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 10}, bindVerb="bind", httpTimeout="2s") as it:
            over = asyncio.Event()

            async def bind(call: Call) -> Answer:
                answer = await it.bind(call)
                await over.wait()
                return answer

            it.extender.on(bind=bind)
            await it.pod("p1")
            node = await it.bound("p1")
            await it.event("p1", "FailedScheduling", text="exceeded")
            await it.settle()
            over.set()
            condition = await it.condition("p1", text="exceeded")
            return [it.extender.verbs(), node, condition["reason"]]

    assert (await both.same(observe))[0] == ["filter", "bind"]


@pytest.mark.promise("G2-01")
async def test_cycles_are_serial_and_binds_are_not(both: Both) -> None:
    """The scheduler asks one filter at a time, and binds all pods in parallel."""

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 100}, bindVerb="bind") as it:
            release = asyncio.Event()
            running = 0
            most = 0

            async def respond(call: Call) -> Answer:
                nonlocal running, most
                if call.verb == "bind":
                    await release.wait()
                    return await it.bind(call)
                running += 1
                most = max(most, running)
                await asyncio.sleep(0)
                running -= 1
                return let_through(call)

            it.extender.respond = respond
            for number in range(5):
                await it.pod(f"p{number}")
            await it.calls("bind", 5)
            release.set()
            for number in range(5):
                await it.bound(f"p{number}")
            return [most, sorted(it.extender.verbs())]

    assert (await both.same(observe))[0] == 1


async def test_a_restarted_scheduler_counts_what_is_bound(both: Both) -> None:
    """A restarted scheduler counts the pods that are bound, and binds none a second time."""

    async def observe(side: Side) -> Any:
        async with stage(side) as it:
            await it.node("a", 10)
            async with it.scheduler():
                await it.pod("first", 8)
                await it.bound("first")
            await it.pod("second", 4)
            async with it.scheduler():
                return [await it.condition("second", text=" "), it.extender.verbs()]

    assert (await both.same(observe))[1] == ["filter"]
