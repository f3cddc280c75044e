"""Promises of the controller about pods without their cards, and about ConfigMaps, over HTTP to a scripted API server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gpushare.extender.core.book import Book
from gpushare.extender.follow.controller import Controller
from gpushare.kube.event_recorder import EventRecorder
from tests.gpushare.kube.scripted_api import HOLD, Answer, Call, ScriptedApi, Watch, client_of, event, listen, listing
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
    """The ConfigMap that declares cards of the node sick."""
    return {"metadata": {"name": "unhealthy-gpu-n", "resourceVersion": version}, "data": {"gpus": gpus}}


class Stage:
    """A cluster with nodes that change when the test wants it, and the events about pods."""

    def __init__(self, *pods: dict[str, Any]) -> None:
        self.api = ScriptedApi(self._answer)
        self.nodes: list[Any] = []
        self.watches: list[list[Any]] = []
        self.config_maps: list[dict[str, Any]] = []
        self._pods = pods

    def notes(self) -> list[tuple[str, str]]:
        """Pod and words of each event so far."""
        return [(call.body["regarding"]["name"], call.body["note"]) for call in self.api.of("POST")]

    def _answer(self, call: Call) -> Answer | Watch | str:
        if call.method == "POST":
            return Answer({}, 201)
        if "watch" in call.query:
            if call.path.endswith("/configmaps"):
                return Watch([*(event("MODIFIED", one) for one in self.config_maps), HOLD])
            is_of_nodes = call.path.endswith("/nodes")
            return Watch([*(self.watches.pop(0) if is_of_nodes and self.watches else []), HOLD])
        if call.path == "/api/v1/pods":
            return listing("1", *self._pods)
        return listing("1", *(self.nodes if call.path.endswith("/nodes") else ()))


@asynccontextmanager
async def following(stage: Stage) -> AsyncIterator[Book]:
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
    stage = Stage(pod("odd", IDX="7"), pod("right", IDX="1"))
    stage.watches = [[event("ADDED", node(2))]]
    async with following(stage):
        await until(stage.notes)

    ((name, note),) = stage.notes()
    assert name == "odd"
    assert note.endswith("annotations name card 7, but node n has the cards [0, 1]: booked on none")


async def test_a_node_that_loses_cards_is_judged_again() -> None:
    """The pods of a node that loses cards are judged again, because no event of theirs comes. Unchanged cards are no news."""
    stage = Stage(pod("first", IDX="0"), pod("last", IDX="1"))
    stage.nodes = [node(2)]
    stage.watches = [[event("MODIFIED", node(2)), event("MODIFIED", node(1)), event("MODIFIED", node(1))]]
    async with following(stage) as book:
        await until(stage.notes)
        unplaced = book.snapshot().nodes["n"].unplaced

    assert [name for name, _ in stage.notes()] == ["last"]
    assert unplaced == 4


async def test_a_pod_with_some_of_its_cards_is_reported() -> None:
    """The card that it is on is booked, the one that it should move to is not there."""
    stage = Stage(pod("moves", IDX="0", REPAIR="7"))
    stage.nodes = [node(2)]
    stage.watches = [[event("MODIFIED", node(2))]]
    async with following(stage) as book:
        await until(stage.notes)
        used = book.snapshot().nodes["n"].used

    ((_, note),) = stage.notes()
    assert note.endswith("annotations name card 7, but node n has the cards [0, 1]: what else they name is booked")
    assert used == 4


async def test_an_entry_that_declares_no_card_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """An entry that declares no card is logged once and not with each change of the ConfigMap. Another entry is logged again."""
    stage = Stage()
    stage.nodes = [node(2)]
    stage.config_maps = [declared(text, str(2 + i)) for i, text in enumerate(["0;2", "0;2,0", "gpu1", "1" * 4000, "1"])]
    async with following(stage) as book:
        await until(lambda: [device.healthy for device in book.snapshot().nodes["n"].devices] == [True, False])

    said = [text for text in caplog.messages if text.startswith("no card indices")]
    assert [text.rpartition("=")[2] for text in said] == ["0;2", "gpu1", "1" * 200]


async def test_a_forged_count_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A forged count makes no cards. Its line is logged once, and not with each of the node's events."""
    stage = Stage()
    forged = node(3_000_000)
    stage.watches.append(
        [event("ADDED", forged), event("MODIFIED", forged), event("MODIFIED", forged | {"kind": "Node"})]
    )
    refused = "node gets no pods node=n reason=the number of GPUs of a node is limited to 128 GPUs"

    async with following(stage) as book:
        await until(lambda: refused in caplog.messages)
        assert book.snapshot().nodes["n"].devices == ()

    assert caplog.messages.count(refused) == 1
