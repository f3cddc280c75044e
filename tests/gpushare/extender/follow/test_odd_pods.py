"""Promises of the reports about pods that cannot be booked."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gpushare import wire
from gpushare.extender.core.belief import IGNORED
from gpushare.extender.follow import odd_pods
from gpushare.extender.follow.odd_pods import OddPods
from gpushare.kube.event_recorder import EventRecorder
from gpushare.manifests import ObjectMeta
from tests.gpushare.kube.scripted_api import Answer, ScriptedApi, client_of, listen
from tests.servers import until

POD = ObjectMeta(name="p", namespace="team", uid="u1")
OTHER = ObjectMeta(name="q", namespace="team", uid="u2")


@asynccontextmanager
async def telling(api: ScriptedApi) -> AsyncIterator[OddPods]:
    """One that reports to this API server, once it is run."""
    async with listen(api) as url, client_of(url) as client:
        yield OddPods(EventRecorder(client, "gpushare", lambda: 0.0, random.Random(1)))


def notes(api: ScriptedApi) -> list[tuple[str, Any]]:
    """Pod and words of each event so far."""
    return [(call.body["regarding"]["name"], call.body["note"]) for call in api.calls]


async def test_the_fault_of_a_pod_is_reported_once() -> None:
    """However often it changes; another fault, or the same after it was mended, is reported again."""
    api = ScriptedApi(lambda call: Answer({}, 201))
    async with telling(api) as odd, asyncio.TaskGroup() as group:
        running = group.create_task(odd.run())
        for count, problem in enumerate(("one", "two"), 1):
            odd.note(POD, problem)
            odd.note(POD, problem)
            await until(lambda count=count: len(api.calls) == count)
        odd.note(POD, None)
        odd.note(OTHER, "one")
        await until(lambda: len(api.calls) == 3)
        running.cancel()

    said = [("p", "one"), ("p", "two"), ("q", "one")]
    assert notes(api) == [(name, f"its GPU memory is not, or not all, booked: {problem}") for name, problem in said]
    assert {call.body["reason"] for call in api.calls} == {wire.EVENT_NOT_BOOKED}


async def test_an_ignored_change_is_an_event_of_its_own() -> None:
    """The pod is booked, so the event does not say otherwise; and its author cannot make many."""
    api = ScriptedApi(lambda call: Answer({}, 201))
    async with telling(api) as odd, asyncio.TaskGroup() as group:
        running = group.create_task(odd.run())
        for number in range(40):
            odd.note(POD, f"{IGNORED}: they name card {number}")
            odd.note(POD, None)
            odd.note(POD, f"{IGNORED}: they name card {number}")
            await asyncio.sleep(0)
        odd.note(OTHER, "one")
        await until(lambda: notes(api)[-1:] == [("q", "its GPU memory is not, or not all, booked: one")])
        running.cancel()

    ignored = [call.body for call in api.calls if call.body["regarding"]["name"] == "p"]
    assert 1 <= len(ignored) <= 5
    assert {body["reason"] for body in ignored} == {wire.EVENT_IGNORED}
    assert all(body["note"].startswith("later changes of its annotations") for body in ignored)


async def test_a_fault_that_ended_before_its_report_is_not_reported() -> None:
    """A fault that ended before its report is not reported."""
    api = ScriptedApi(lambda call: Answer({}, 201))
    async with telling(api) as odd, asyncio.TaskGroup() as group:
        odd.note(POD, "one")
        odd.note(POD, None)
        odd.note(OTHER, "two")
        running = group.create_task(odd.run())
        await until(lambda: api.calls)
        running.cancel()

    assert [name for name, _ in notes(api)] == ["q"]


async def test_a_report_that_was_not_written_is_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while, and the others first; what it does not want is not."""
    monkeypatch.setattr(odd_pods, "_PAUSE_SECONDS", 0.0)
    answers: list[Answer | str] = [
        Answer({}, 429),
        Answer({}, 500),
        "drop",
        Answer({}, 422),
        Answer({}, 201),
        Answer({}, 201),
    ]
    api = ScriptedApi(lambda call: answers.pop(0) if answers else Answer({}, 201))
    async with telling(api) as odd, asyncio.TaskGroup() as group:
        for uid in ("a", "b", "c", "d"):
            odd.note(ObjectMeta(name=uid, namespace="team", uid=uid), "one")
        running = group.create_task(odd.run())
        await until(lambda: len(api.calls) == 7)
        odd.note(OTHER, "one")
        await until(lambda: notes(api)[-1][0] == "q")
        running.cancel()

    assert [name for name, _ in notes(api)] == ["a", "b", "c", "d", "a", "b", "c", "q"]


async def test_no_annotations_wait_with_a_pod() -> None:
    """A pod waits for its report without its annotations, which may be hundreds of kB."""
    api = ScriptedApi(lambda call: Answer({}, 201))
    async with telling(api) as odd:
        odd.note(ObjectMeta(name="p", namespace="team", uid="u1", annotations={"large": "x"}), "one")
        waiting, _ = odd._reports.get_nowait()

    assert waiting == POD


async def test_the_log_has_faults_for_which_no_event_has_room(caplog: pytest.LogCaptureFixture) -> None:
    """An API server that takes no events fills no memory."""
    caplog.set_level(logging.WARNING)
    api = ScriptedApi(lambda call: Answer({}, 201))
    async with telling(api) as odd, asyncio.TaskGroup() as group:
        for number in range(600):
            odd.note(ObjectMeta(name=f"p{number}", namespace="team", uid=str(number)), "one")
        running = group.create_task(odd.run())
        await until(lambda: len(api.calls) == 500)
        odd.note(POD, "one")
        await until(lambda: len(api.calls) == 501)
        running.cancel()

    assert notes(api)[-1][0] == "p"
    assert len(caplog.records) == 601


async def test_without_events_the_log_alone_has_it(caplog: pytest.LogCaptureFixture) -> None:
    """The line has the pod, its uid and the problem."""
    caplog.set_level(logging.WARNING)
    odd = OddPods()
    odd.note(POD, "one")
    await odd.run()

    assert [record.getMessage() for record in caplog.records] == ["odd pod=team/p uid=u1 problem=one"]
