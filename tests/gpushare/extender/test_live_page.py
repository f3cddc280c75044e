"""Promises of the page's paths, over real HTTP: what they answer, to which callers, and what a viewer gets later."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from clusters.api.connection import Stream
from gpushare import wire
from gpushare.bounds import VIEWERS
from gpushare.extender import live_page as module
from gpushare.extender.core.page_document import PageDocument
from gpushare.serving.http_connection import Answer, HttpRequest
from tests.gpushare.extender.rig import PAGE, Extender, Object, cards_node, pod, refuse, with_page
from tests.servers import until


class Viewer:
    """The messages that one open page gets."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._pieces = stream.pieces()
        self._text = b""

    async def message(self) -> Object:
        """The next one."""
        while b"\n\n" not in self._text:
            self._text += await anext(self._pieces)
        event, _, self._text = self._text.partition(b"\n\n")
        if not event.startswith(b"data: "):
            return await self.message()
        found: Object = json.loads(event.removeprefix(b"data: "))
        return found


@asynccontextmanager
async def viewer(one: Extender) -> AsyncIterator[Viewer]:
    """An open page."""
    async with one.http.stream("GET", f"{PAGE}/events") as stream:
        assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
        yield Viewer(stream)


async def state(one: Extender) -> Object:
    """The document."""
    return (await one.http.get(f"{PAGE}/state")).json()


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents follow each other without a pause, so that no test waits, and each answer is new."""
    monkeypatch.setattr(module, "REFRESH_SECONDS", 0)


async def test_the_page_is_one_file_that_allows_itself_alone() -> None:
    """Its policy names the digests of its own script and style, and it asks no other server for anything."""
    async with with_page() as one:
        answer = await one.http.get(PAGE)
    policy = answer.headers["content-security-policy"]

    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    for kind in ("script", "style"):
        (text,) = re.findall(f"<{kind}>(.*?)</{kind}>", answer.text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none';")
    assert "connect-src 'self'" in policy
    assert re.findall(r"(?:src|href|action)=\"(?:[a-z]+:)?//", answer.text) == []
    assert " style=" not in answer.text
    assert "{{" not in answer.text


async def test_all_viewers_share_one_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many ask at the same time, it is made once; a young one is not made again."""
    made = []
    refresh = PageDocument.refresh

    def counted(self: PageDocument, *arguments: object) -> Iterator[None]:
        made.append(time.monotonic())
        return refresh(self, *arguments)  # type: ignore[arg-type]  # as they came

    async with with_page() as one:
        await state(one)
        monkeypatch.setattr(module, "REFRESH_SECONDS", 600)
        monkeypatch.setattr(PageDocument, "refresh", counted)
        one.page.made_at = float("-inf")
        answers = await asyncio.gather(*(one.http.get(f"{PAGE}{path}") for path in ("", "/state") * 5))

    assert {answer.status_code for answer in answers} == {200}
    assert len(made) == 1


async def test_a_quiet_cluster_sends_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have the same version, and when the API server answered last."""
    monkeypatch.setattr(module, "BEAT_SECONDS", 0.05)
    async with with_page() as one:
        await state(one)
        async with viewer(one) as open_page:
            first, beat = await open_page.message(), await open_page.message()

    assert set(beat) == {"version", "now", "contacts"}
    assert (beat["version"], beat["contacts"]["pods"]) == (first["version"], None)
    assert beat["now"] >= first["now"]


async def test_one_viewer_too_many_is_refused() -> None:
    """With a status after which a page asks for the state now and then, and a place is free again once one is closed."""
    async with with_page() as one:
        streams = [one.http.stream("GET", f"{PAGE}/events") for _ in range(VIEWERS.most)]
        opened = [await stream.__aenter__() for stream in streams]
        refused = await one.http.get(f"{PAGE}/events")
        await streams[0].__aexit__(None, None, None)
        await until(lambda: not one.page.viewers.is_full)
        async with viewer(one) as open_page:
            assert "version" in await open_page.message()
        for stream in streams[1:]:
            await stream.__aexit__(None, None, None)

    assert {stream.status_code for stream in opened} == {200}
    assert (refused.status_code, refused.text) == (503, f"{VIEWERS.refusal}; ask for ui/state now and then\n")


async def test_a_page_that_cannot_be_made_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, answered with 500, and made as a whole afterwards: no viewer takes half a change for all of it."""
    async with with_page() as one:
        known = await state(one)
        async with viewer(one) as open_page:
            await open_page.message()
            one.knows(cards_node("n3", 4))
            monkeypatch.setattr(PageDocument, "_compare", lambda self: 1 / 0)
            assert (await one.http.get(f"{PAGE}/state")).status_code == 500
            await until(lambda: "failed to make the page" in caplog.text)
            assert (await one.http.get("/gpushare-scheduler/inspect/n1")).status_code == 200
            monkeypatch.undo()
            change = await open_page.message()

    assert change["base"] != known["version"]
    assert [row[0] for row in change["nodes"]] == ["n1", "n2", "n3"]


async def test_the_scheduler_is_answered_while_the_page_is_made() -> None:
    """The document of many nodes is made in slices, and other requests have their turn between any two."""
    async with with_page() as one:
        for number in range(500):
            one.knows(cards_node(f"m{number:03}", 14, 14))
        making = asyncio.ensure_future(one.page.refresh())
        turns = 0
        while not making.done():
            turns += 1
            await asyncio.sleep(0)

    assert turns > 500 / 64


async def test_decisions_of_each_verb_are_shown() -> None:
    """A refusal with its reason, a bind with its node and card, and a bind that failed."""
    order = {"PodName": "p", "PodNamespace": "d", "PodUID": "uid-p", "Node": "n1"}
    async with with_page(pod("p", 3)) as one:
        refuse(one, "waits", 30, "n1")
        bound = await one.http.post("/gpushare-scheduler/bind", json=order)
        await one.http.post("/gpushare-scheduler/bind", json=order | {"PodName": "q"})
        question = {"Pod": pod("p", 3), "NodeNameToMetaVictims": {"n1": {"Pods": []}}}
        await one.http.post("/gpushare-scheduler/preempt", json=question)
        shown = await state(one)

    assert bound.json() == {"Error": ""}
    assert [tuple(one[1:5]) for one in reversed(shown["decisions"])] == [
        ("refused", "d", "waits", "no GPU of the node is large enough"),
        ("bound", "d", "p", "n1, card 0"),
        ("not bound", "d", "q", "pod d/q is not there any more"),
        ("preemption", "d", "p", "possible on 1 of 1 nodes"),
    ]


async def test_pages_opened_together_are_written_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between any two of them the loop does other work, such as a scheduler's question."""
    async with with_page() as one:
        await one.page.refresh()
        monkeypatch.setattr(module, "REFRESH_SECONDS", 600)
        write = cast("Callable[[HttpRequest], Coroutine[None, None, Answer]]", one.page.answers[wire.PATH_PAGE])
        answers = [asyncio.ensure_future(write(HttpRequest("GET", PAGE, b"", is_known=True))) for _ in range(5)]
        done = []
        while len(done) < 5:
            before = len(done)
            await asyncio.sleep(0)
            done = [answer for answer in answers if answer.done()]
            assert len(done) - before <= 1
