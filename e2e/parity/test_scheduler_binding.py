"""The consequences if a bind fails, or only its answer."""

from __future__ import annotations

import asyncio
import base64
import ssl
from pathlib import Path
from typing import Any

import pytest

from clusters.api.certificates import Authority
from e2e.parity.recording_extender import Answer, Call, RecordingExtender, let_through
from e2e.parity.scheduler_stage import BACKOFF, entry, play, stage
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


@pytest.mark.promise("G2-10")
async def test_a_failed_bind_is_a_chance_for_others(both: Both) -> None:
    """A pod that waits for room is tried when another pod's bind fails."""

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 10}, bindVerb="bind") as it:
            release = asyncio.Event()

            async def bind(call: Call) -> Answer:
                if call.message["PodName"] == "first":
                    await release.wait()
                    return Answer({"Error": "card is gone"})
                return await it.bind(call)

            it.extender.on(bind=bind)
            await it.pod("first", 10)
            await it.calls("bind")
            await it.pod("second", 10)
            condition = await it.condition("second", text=" ")
            release.set()
            return [condition, await it.bound("second"), (await it.pods())["first"]]

    assert (await both.same(observe))[1:] == ["a", ""]


@pytest.mark.promise("EXT-009", "G2-05")
async def test_other_statuses_of_bind(both: Both) -> None:
    """A bind answer with another status than 200 is an error with that status, and its body is not read."""

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 10}, bindVerb="bind") as it:
            it.extender.on(bind=Answer({"Error": "lost"}, 500))
            await it.pod("p1")
            condition = await it.condition("p1", text="bind")
            return [condition["reason"], condition["message"].replace(it.extender.url, "URL")]

    assert await both.same(observe) == ["SchedulerError", "failed bind with extender at URL URL/bind, code 500"]


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


@pytest.mark.promise("EXT-037")
async def test_an_ignorable_binder_that_fails(both: Both) -> None:
    """The scheduler binds a pod without the extender if an ignorable one fails to."""

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 10}, bindVerb="bind", ignorable=True) as it:
            it.extender.on(bind=Answer({"Error": "no"}))
            await it.pod("p1")
            return [await it.bound("p1"), it.extender.verbs()]

    assert await both.same(observe) == ["a", ["filter", "bind"]]


async def test_a_pod_deleted_while_it_is_bound(both: Both) -> None:
    """A pod deleted during its bind frees its room immediately, whatever the bind does."""

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 10}, bindVerb="bind") as it:
            release = asyncio.Event()

            async def bind(call: Call) -> Answer:
                if call.message["PodName"] == "first":
                    await release.wait()
                return await it.bind(call)

            it.extender.on(bind=bind)
            await it.pod("first", 10)
            await it.calls("bind")
            await it.pod("second", 10)
            await it.condition("second", text="Insufficient")
            await it.delete_pod("first")
            node = await it.bound("second")
            release.set()
            return [node, sorted(await it.pods())]

    assert await both.same(observe) == ["a", ["second"]]


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


@pytest.mark.promise("G2-06")
async def test_a_filter_that_takes_too_long(both: Both) -> None:
    """A filter call that takes longer than httpTimeout is an error, after which the pod is tried again."""

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 10}, httpTimeout="1s") as it:
            slow = [True]

            async def filtered(call: Call) -> Answer:
                if slow:
                    await asyncio.Event().wait()
                return let_through(call)

            it.extender.on(filter=filtered)
            await it.pod("p1")
            condition = await it.condition("p1", text="exceeded")
            slow.clear()
            return [await it.bound("p1"), condition["reason"]]

    assert (await both.same(observe))[1] == "SchedulerError"


@pytest.mark.promise("EXT-036")
async def test_an_extender_that_is_not_there(both: Both) -> None:
    """An extender that does not run is a SchedulerError for the pod, which is bound once the extender runs."""

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 10}) as it:
            await it.extender.stop()
            await it.pod("p1")
            condition = await it.condition("p1", text="/filter")
            await it.extender.start()
            return [await it.bound("p1"), condition["reason"]]

    assert (await both.same(observe))[1] == "SchedulerError"


@pytest.mark.promise("EXT-030")
async def test_calls_share_a_connection(both: Both) -> None:
    """Calls that follow each other come on one kept-alive connection."""

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 100}) as it:
            for number in range(10):
                await it.pod(f"p{number}")
                await it.bound(f"p{number}")
            return [call.connection for call in it.extender.calls]

    assert set(await both.same(observe)) == {1}


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


@pytest.mark.promise("EXT-033")
async def test_tls(both: Both, tmp_path: Path) -> None:
    """A scheduler verifies the extender's certificate against the CA of tlsConfig, and verifies nothing without one."""
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
    ours, theirs = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
    pair = ours.issue_server("extender", ("127.0.0.1",))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)
    ways: list[dict[str, Any]] = [
        {"enableHTTPS": True},
        {"tlsConfig": {"caFile": str(ours.ca)}},
        {"enableHTTPS": True, "tlsConfig": {"caData": base64.b64encode(ours.ca.read_bytes()).decode()}},
        {"tlsConfig": {"caFile": str(theirs.ca)}},
    ]

    async def observe(side: Side) -> Any:
        seen: list[Any] = []
        async with stage(side) as it, RecordingExtender(tls=context) as extender:
            await it.node("a", 100)
            for number, way in enumerate(ways):
                name = f"p{number}"
                async with side.scheduler({**BACKOFF, "extenders": [entry(extender, **way)]}):
                    await it.pod(name)
                    if number < 3:
                        seen.append(await it.bound(name))
                    else:
                        seen.append((await it.condition(name, text="certificate"))["reason"])
        return seen

    assert await both.same(observe) == ["a", "a", "a", "SchedulerError"]
