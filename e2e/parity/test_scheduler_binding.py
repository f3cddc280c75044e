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
    """A7: SchedulerError with the extender's words, the pod forgotten, another try after the backoff."""

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
    """A7: a pod that waits for room is tried when a bind fails, as if a pod had been deleted."""

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
    """A7: the body of an answer that is not 200 is thrown away, its Error too."""

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 10}, bindVerb="bind") as it:
            it.extender.on(bind=Answer({"Error": "lost"}, 500))
            await it.pod("p1")
            condition = await it.condition("p1", text="bind")
            return [condition["reason"], condition["message"].replace(it.extender.url, "URL")]

    assert await both.same(observe) == ["SchedulerError", "failed bind with extender at URL URL/bind, code 500"]


@pytest.mark.promise("EXT-025", "G2-06")
async def test_bound_though_the_answer_never_came(both: Both) -> None:
    """A7: a pod that the scheduler sees bound is not tried again, though the call failed; the event shows it."""

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
    """A7: the scheduler binds on its own, past the extender."""

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 10}, bindVerb="bind", ignorable=True) as it:
            it.extender.on(bind=Answer({"Error": "no"}))
            await it.pod("p1")
            return [await it.bound("p1"), it.extender.verbs()]

    assert await both.same(observe) == ["a", ["filter", "bind"]]


async def test_a_pod_deleted_while_it_is_bound(both: Both) -> None:
    """A7: its room is free immediately for others, whatever the bind does."""

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
    """A5: one filter at a time; the binds of all pods in parallel."""

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
    """A1: httpTimeout covers the whole call; the pod is tried again."""

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
    """A3: an error, which is over when the extender comes."""

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
    """A1: keep-alive; calls that follow each other come on the same connection."""

    async def observe(side: Side) -> Any:
        async with play(side, {"a": 100}) as it:
            for number in range(10):
                await it.pod(f"p{number}")
                await it.bound(f"p{number}")
            return [call.connection for call in it.extender.calls]

    assert set(await both.same(observe)) == {1}


async def test_a_restarted_scheduler_counts_what_is_bound(both: Both) -> None:
    """A5: the pods that were bound before count from the start; nothing is bound twice."""

    async def observe(side: Side) -> Any:
        async with stage(side) as it:
            await it.node("a", 10)
            configuration = {**BACKOFF, "extenders": [entry(it.extender)]}
            async with side.scheduler(configuration):
                await it.pod("first", 8)
                await it.bound("first")
            await it.pod("second", 4)
            async with side.scheduler(configuration):
                return [await it.condition("second", text=" "), it.extender.verbs()]

    assert (await both.same(observe))[1] == ["filter"]


@pytest.mark.promise("EXT-033")
async def test_tls(both: Both, tmp_path: Path) -> None:
    """A1: enableHTTPS without a CA verifies nothing; with a CA the certificate must be of that authority."""
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
