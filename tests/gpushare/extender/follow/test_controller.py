"""Promises of the controller about pods without their cards, and about ConfigMaps, over HTTP to a scripted API server."""

from __future__ import annotations

import asyncio
import logging
import random
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from gpushare import wire
from gpushare.extender.core.accepted_state import IGNORED
from gpushare.extender.core.book import Book
from gpushare.extender.follow.controller import Controller, OddPods
from gpushare.kube.event_recorder import EventRecorder
from gpushare.manifests import ObjectMeta, Pod
from gpushare.model.node import Booking
from tests.gpushare.kube.scripted_api import HOLD, Answer, Call, ScriptedApi, Watch, client_of, event, listen, listing
from tests.passing_time import pass_time_until
from tests.servers import until


def node(cards: int) -> dict[str, Any]:
    """With cards of 10 units."""
    capacity = {"aliyun.com/gpu-mem": str(10 * cards), "aliyun.com/gpu-count": str(cards)}
    return {"metadata": {"name": "n"}, "status": {"capacity": capacity}}


def pod(name: str, **annotations: str) -> dict[str, Any]:
    """Bound, of 4 units."""
    said = {f"ALIYUN_COM_GPU_MEM_{key}": value for key, value in annotations.items()}
    container = {"name": "c", "resources": {"limits": {"aliyun.com/gpu-mem": "4"}}}
    metadata = {"name": name, "namespace": "team", "uid": f"uid-{name}", "annotations": said}
    return {"metadata": metadata, "spec": {"nodeName": "n", "containers": [container]}}


def declared(gpus: str, version: str = "2") -> dict[str, Any]:
    """The ConfigMap that declares cards of the node unhealthy."""
    return {"metadata": {"name": "unhealthy-gpu-n", "resourceVersion": version}, "data": {"gpus": gpus}}


class FollowedCluster:
    """A cluster with nodes that change when the test wants it, and the events about pods."""

    def __init__(self, *pods: dict[str, Any]) -> None:
        self.api = ScriptedApi(self._answer)
        self.nodes: list[Any] = []
        self.watches: list[list[Any]] = []
        self.watches_of_pods: list[list[Any]] = []
        self.config_maps: list[dict[str, Any]] = []
        self._pods = pods

    def notes(self) -> list[tuple[str, str]]:
        """Pod and words of each event so far."""
        return [(call.body["involvedObject"]["name"], call.body["message"]) for call in self.api.of("POST")]

    def _answer(self, call: Call) -> Answer | Watch | str:
        if call.method == "POST":
            return Answer({}, 201)
        if "watch" in call.query:
            if call.path.endswith("/configmaps"):
                return Watch([*(event("MODIFIED", one) for one in self.config_maps), HOLD])
            watches = {"/api/v1/nodes": self.watches, "/api/v1/pods": self.watches_of_pods}.get(call.path)
            return Watch([*(watches.pop(0) if watches else []), HOLD])
        if call.path == "/api/v1/pods":
            return listing("1", *self._pods)
        return listing("1", *(self.nodes if call.path.endswith("/nodes") else ()))


@asynccontextmanager
async def following(stage: FollowedCluster) -> AsyncIterator[Book]:
    """The book of an extender there, once it is ready."""
    book = Book()
    async with listen(stage.api) as url, client_of(url) as client:
        events = EventRecorder(client, "gpushare", lambda: 0.0, random.Random(1))
        controller = Controller(client, book, events=events)
        running = asyncio.create_task(controller.run())
        try:
            await until(controller.is_ready)
            yield book
        finally:
            running.cancel()
            await asyncio.wait([running])


async def test_node_that_comes_after_its_pods_is_judged_with_them() -> None:
    """A large cluster's nodes come page by page, and its pods need not wait for them."""
    stage = FollowedCluster(pod("odd", IDX="7"), pod("right", IDX="1"))
    stage.watches = [[event("ADDED", node(2))]]
    async with following(stage):
        await until(stage.notes)

    ((name, note),) = stage.notes()
    assert name == "odd"
    assert note.endswith("annotations name card 7, but node n has the cards [0, 1]: booked on none")


@pytest.mark.parametrize("is_shown_by_an_answer", [False, True])
async def test_a_pod_that_is_bound_and_gone_unseen_is_forgotten(is_shown_by_an_answer: bool) -> None:
    """The list after a gap in the watch lacks a pod that no list and no event has shown, and that an order has bound."""
    stage = FollowedCluster()
    stage.nodes = [node(1)]
    stage.watches_of_pods = [[event("ERROR", {"code": 410, "reason": "Expired", "message": "too old"})]]
    async with following(stage) as book:
        if is_shown_by_an_answer:
            book.set_pod(msgspec.convert(pod("a", IDX="0"), Pod))
        else:
            book.assume("n", Booking("uid-a", "team", "a", 4, ((0, 4),)))
            book.bound(ObjectMeta("a", "team", "uid-a"), "n", 0)
        assert book.snapshot().nodes["n"].used
        await until(lambda: book.snapshot().nodes["n"].used == 0)


async def test_a_node_that_loses_cards_is_judged_again() -> None:
    """The pods of a node that loses cards are judged again, because no event of theirs comes. Unchanged cards are no news."""
    stage = FollowedCluster(pod("first", IDX="0"), pod("last", IDX="1"))
    stage.nodes = [node(2)]
    stage.watches = [[event("MODIFIED", node(2)), event("MODIFIED", node(1)), event("MODIFIED", node(1))]]
    async with following(stage) as book:
        await until(stage.notes)
        unplaced = book.snapshot().nodes["n"].unplaced

    assert [name for name, _ in stage.notes()] == ["last"]
    assert unplaced == 4


async def test_an_entry_that_declares_no_card_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """An entry that declares no card is logged once and not with each change of the ConfigMap. Another entry is logged again."""
    stage = FollowedCluster()
    stage.nodes = [node(2)]
    stage.config_maps = [declared(text, str(2 + i)) for i, text in enumerate(["0;2", "0;2,0", "gpu1", "1" * 4000, "1"])]
    async with following(stage) as book:
        await until(lambda: [device.healthy for device in book.snapshot().nodes["n"].devices] == [True, False])

    said = [text for text in caplog.messages if text.startswith("no card indices")]
    assert [text.rpartition("=")[2] for text in said] == ["0;2", "gpu1", "1" * 200]


async def test_a_forged_count_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A forged count makes no cards. Its line is logged once, and not with each of the node's events."""
    stage = FollowedCluster()
    forged = node(3_000_000)
    stage.watches.append(
        [event("ADDED", forged), event("MODIFIED", forged), event("MODIFIED", forged | {"kind": "Node"})]
    )
    refused = "node gets no pods node=n reason=the number of GPUs of a node is limited to 128 GPUs"

    async with following(stage) as book:
        await until(lambda: refused in caplog.messages)
        assert book.snapshot().nodes["n"].devices == ()

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
    assert notes_of(api) == [(name, f"its GPU memory is not, or not all, booked: {problem}") for name, problem in said]
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
        await until(lambda: notes_of(api)[-1:] == [("q", "its GPU memory is not, or not all, booked: one")])
        running.cancel()

    ignored = [call.body for call in api.calls if call.body["involvedObject"]["name"] == "p"]
    assert 1 <= len(ignored) <= 5
    assert {body["reason"] for body in ignored} == {wire.EVENT_IGNORED}
    assert all(body["message"].startswith("later changes of its annotations") for body in ignored)


async def test_a_report_that_was_not_written_is_written_again() -> None:
    """After a while, and the others first; what it does not want is not."""
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
        await pass_time_until(lambda: len(api.calls) == 7)
        odd.note(OTHER, "one")
        await until(lambda: notes_of(api)[-1][0] == "q")
        running.cancel()

    assert [name for name, _ in notes_of(api)] == ["a", "b", "c", "d", "a", "b", "c", "q"]


class Annotations(dict[str, str]):
    """Shows whether it is kept, as a plain dict cannot."""


async def test_no_annotations_wait_with_a_pod() -> None:
    """A pod waits for its report without its annotations, which may be hundreds of kB."""
    api = ScriptedApi(lambda call: Answer({}, 201))
    async with telling(api) as odd:
        annotations = Annotations(large="x")
        is_kept = weakref.ref(annotations)
        odd.note(ObjectMeta(name="p", namespace="team", uid="u1", annotations=annotations), "one")
        del annotations

        assert is_kept() is None


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

    assert notes_of(api)[-1][0] == "p"
    assert len(caplog.records) == 601
