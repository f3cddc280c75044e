"""Promises of the controller about pods without their cards, and about ConfigMaps, over HTTP to a scripted API server."""

from __future__ import annotations

import asyncio
import logging
import random
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gpushare import wire
from gpushare.extender.core.accepted_state import IGNORED
from gpushare.extender.follow.controller import OddPods
from gpushare.kube.event_recorder import EventRecorder
from gpushare.manifests import ObjectMeta
from gpushare.model.node import Booking
from tests.gpushare.extender.rig import COUNT, MEMORY, following, node, pod
from tests.gpushare.kube.scripted_api import Answer, ScriptedApi, client_of, listen
from tests.passing_time import pass_time_until
from tests.servers import until


async def test_a_node_that_loses_cards_is_judged_again() -> None:
    """The pods of a node that loses cards are judged again, because no event of theirs comes. Unchanged cards are no news."""
    async with following(node("n", 10, 10), pod("first", 4, "n", 0), pod("last", 4, "n", 1)) as on:
        for cards in ((10, 10), (10,), (10,)):
            on.api.put(node("n", *cards))
        await until(lambda: on.api.events)

    assert [event["involvedObject"]["name"] for event in on.api.events] == ["last"]
    assert on.book.snapshot().nodes["n"].unplaced == 4


@pytest.mark.parametrize("is_shown_by_an_answer", [False, True])
async def test_a_pod_that_is_bound_and_gone_unseen_is_forgotten(is_shown_by_an_answer: bool) -> None:
    """The list after a gap in the watch lacks a pod that no list and no event has shown, and that an order has bound."""
    async with following(node("n", 10)) as on:
        if is_shown_by_an_answer:
            on.knows(pod("a", 4, "n", 0))
        else:
            on.book.assume("n", Booking("uid-a", "d", "a", 4, ((0, 4),)))
            on.book.bound(ObjectMeta("a", "d", "uid-a"), "n", 0)
        assert on.used() == [4]
        on.api.disconnect(forget=True)
        on.api.put(node("m", 10))
        await until(lambda: on.used() == [0])


async def test_a_forged_count_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A forged count makes no cards. Its line is logged once, and not with each of the node's events."""
    forged = node("n", 0)
    forged["status"]["capacity"] = {MEMORY: "30000000", COUNT: "3000000"}
    refused = "node gets no pods node=n reason=the number of GPUs of a node is limited to 128 GPUs"
    async with following(forged) as on:
        on.api.put(forged)
        on.api.put(node("last", 10))
        await until(lambda: "last" in on.book.snapshot().nodes)
        assert on.used() == []

    assert caplog.messages.count(refused) == 1


POD = ObjectMeta(name="p", namespace="team", uid="u1")
OTHER = ObjectMeta(name="q", namespace="team", uid="u2")


@asynccontextmanager
async def telling(api: ScriptedApi) -> AsyncIterator[OddPods]:
    """One that reports to this API server, once it is run."""
    async with listen(api) as url, client_of(url) as client:
        yield OddPods(EventRecorder(client, "gpushare", lambda: 0.0, random.Random(1)))


def notes_of(api: ScriptedApi) -> list[tuple[str, Any]]:
    """Pod and words of each event so far."""
    return [(call.body["involvedObject"]["name"], call.body["message"]) for call in api.calls]


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
        await until(lambda: notes_of(api)[-1:] == [("q", "its GPU memory is not, or not all, booked: one")])
        running.cancel()

    ignored = [call.body for call in api.calls if call.body["involvedObject"]["name"] == "p"]
    assert 1 <= len(ignored) <= 5
    assert {body["reason"] for body in ignored} == {wire.EVENT_IGNORED}
    assert all(body["message"].startswith("later changes of its annotations") for body in ignored)


async def test_a_report_that_was_not_written_is_written_again() -> None:
    """After a while, and the others first; what it does not want is not."""
    answers: list[Answer | str] = [Answer({}, 429), Answer({}, 500), "drop", Answer({}, 422)]
    api = ScriptedApi(lambda call: answers.pop(0) if answers else Answer({}, 201))
    async with telling(api) as odd, asyncio.TaskGroup() as group:
        for uid in ("a", "b", "c", "d"):
            odd.note(ObjectMeta(name=uid, namespace="team", uid=uid), "one")
        running = group.create_task(odd.run())
        await pass_time_until(lambda: len(api.calls) == 7)
        odd.note(OTHER, "one")
        await until(lambda: notes_of(api)[-1][0] == "q")
        running.cancel()

    assert [name for name, _ in notes_of(api)] == ["a", "b", "c", "d", "a", "b", "c", "q"]


class Annotations(dict[str, str]):
    """Shows whether it is kept, as a plain dict cannot."""


async def test_no_annotations_wait_with_a_pod() -> None:
    """A pod waits for its report without its annotations, which may be hundreds of kB."""
    async with telling(ScriptedApi(lambda call: Answer({}, 201))) as odd:
        annotations = Annotations(large="x")
        is_kept = weakref.ref(annotations)
        odd.note(ObjectMeta(name="p", namespace="team", uid="u1", annotations=annotations), "one")
        del annotations

        assert is_kept() is None


async def test_the_log_has_faults_for_which_no_event_has_room(caplog: pytest.LogCaptureFixture) -> None:
    """An API server that takes no events fills no memory. A fault is logged once, however often its pod changes."""
    caplog.set_level(logging.WARNING)
    api = ScriptedApi(lambda call: Answer({}, 201))
    async with telling(api) as odd, asyncio.TaskGroup() as group:
        for number in (*range(600), *range(600)):
            odd.note(ObjectMeta(name=f"p{number}", namespace="team", uid=str(number)), "one")
        running = group.create_task(odd.run())
        await until(lambda: len(api.calls) == 500)
        odd.note(POD, "one")
        await until(lambda: len(api.calls) == 501)
        running.cancel()

    assert notes_of(api)[-1][0] == "p"
    assert len(caplog.records) == 601
