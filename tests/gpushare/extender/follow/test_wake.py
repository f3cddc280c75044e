"""Promises of gpushare.extender.follow.wake, over real HTTP to a small API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from gpushare import wire
from gpushare.extender.core.book import Book
from gpushare.extender.core.filter import FilterResult
from gpushare.extender.core.filter_cache import FilterCache
from gpushare.extender.follow.wake import Waker
from gpushare.kube.client import ApiClient
from gpushare.manifests import Node, Pod
from gpushare.model.pod import Request, request_of
from tests.servers import StubApi, http_pool, serve, status

_FORBIDDEN = (
    'nodes "n" is forbidden: User "x" cannot patch resource "nodes/status" in API group "" at the cluster scope'
)


def node(name: str, units: int) -> dict[str, Any]:
    """A node of one card."""
    capacity = {"aliyun.com/gpu-mem": str(units), "aliyun.com/gpu-count": "1"}
    return {"metadata": {"name": name}, "status": {"capacity": capacity}}


def pod(name: str, units: int, **wishes: str) -> Pod:
    """A pod that waits."""
    container = {"name": "c", "resources": {"limits": {"aliyun.com/gpu-mem": str(units)}}}
    annotations = {f"gpushare.aliyun.com/{key}": text for key, text in wishes.items()}
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "annotations": annotations}
    return msgspec.convert({"metadata": metadata, "spec": {"containers": [container]}}, Pod)


@dataclass
class ClusterWithClock:
    """A cluster of one node of 8 units, and a clock."""

    api: StubApi
    waker: Waker
    book: Book
    filter_cache: FilterCache
    clock: list[float] = field(default_factory=lambda: [0.0])
    told: list[bool] = field(default_factory=list)

    def refuse(self, pod: Pod) -> None:
        """The pod waits, and was refused just now."""
        self.book.set_pod(pod)
        result = FilterResult([], {wire.REASON_NO_CARD_FITS: ["n"]}, {})
        self.filter_cache.note(pod.metadata, request_of(pod), result, b"", self.clock[0])

    async def turn(self, seconds: float) -> list[dict[str, Any]]:
        """So much later: what was written."""
        self.clock[0] += seconds
        self.api.calls.clear()
        await self.waker.turn()
        return [call for call in self.api.calls if call["method"] == "PATCH"]


@asynccontextmanager
async def stage() -> AsyncIterator[ClusterWithClock]:
    """Its API server listens."""
    api, book, filter_cache, clock = StubApi(nodes=[node("n", 8)]), Book(), FilterCache(), [0.0]
    book.set_node(msgspec.convert(node("n", 8), Node))
    async with serve(api) as url, http_pool(url) as http:
        told: list[bool] = []
        waker = Waker(
            ApiClient(http), book, filter_cache, policy="binpack", clock_ns=lambda: 7, monotonic=lambda: clock[0],
            on_call=told.append,
        )  # fmt: skip
        yield ClusterWithClock(api, waker, book, filter_cache, clock, told)


async def test_pod_that_would_fit_and_is_not_asked_about_is_called() -> None:
    """D29: by an annotation of a node that has room, in one write; and not again immediately."""
    async with stage() as on:
        on.refuse(pod("p", 8))
        assert await on.turn(4.9) == []
        (call,) = await on.turn(0.1)
        assert call["path"] == "/api/v1/nodes/n/status"
        assert call["body"] == {"metadata": {"annotations": {wire.ANNOTATION_ROOM: "7"}}}
        assert await on.turn(9.9) == []
        assert len(await on.turn(0.1)) == 1


async def test_one_call_is_for_all() -> None:
    """A change of a node makes a scheduler look at every pod that an extender refused."""
    async with stage() as on:
        for number in range(30):
            on.refuse(pod(f"p{number}", 8))
        assert len(await on.turn(5)) == 1


async def test_no_pod_is_called_that_would_be_refused_or_is_bound() -> None:
    """The extender calls no pod that is too large or that was bound in between."""
    async with stage() as on:
        on.refuse(pod("large", 9))
        bound = pod("bound", 1)
        on.refuse(bound)
        bound.spec.node_name = "n"
        on.book.set_pod(bound)
        assert await on.turn(5) == []
        assert on.filter_cache.of("ns", "bound") is None


async def test_a_pod_is_called_once_the_book_has_caught_up() -> None:
    """D29: a pod that was refused by a book behind the scheduler's copy is called after the watch has shown pod and room."""
    async with stage() as on:
        waiting = pod("p", 8)
        result = FilterResult([], {wire.REASON_NO_CARD_FITS: ["n"]}, {})
        on.filter_cache.note(waiting.metadata, request_of(waiting), result, b"", 0)
        assert [call for _ in range(3) for call in await on.turn(10)] == []
        on.book.set_pod(waiting)
        assert len(await on.turn(1)) == 1


async def test_pods_that_fit_nowhere_keep_no_other_waiting() -> None:
    """However many wait longer, with however many requests: a pod that would get a card is reached, again and again."""
    async with stage() as on:
        for number in range(700):
            on.refuse(pod(f"large-{number}", 9 + number % 60))
        on.refuse(pod("fits", 8))
        calls = [call for _ in range(15) for call in await on.turn(5)]

    assert len(calls) > 1


async def test_looking_displaces_no_answers_of_schedulers() -> None:
    """The requests of pods that no scheduler asks about any more are not kept up for their sake."""
    async with stage() as on:
        asked = [on.book.answers.reasons(Request(units)) for units in range(1, 21)]
        for number in range(20):
            on.refuse(pod(f"large-{number}", 30 + number))
        await on.turn(5)

        assert all(on.book.answers.known(Request(units)) is asked[units - 1] for units in range(1, 21))


async def test_without_the_right_it_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    """Under the original's roles: what it does not get it can do without. Each call is counted with its outcome."""
    async with stage() as on:
        on.refuse(pod("p", 8))
        await on.turn(1)
        assert on.told == []
        await on.turn(4)
        on.api.fault = lambda method, path: status(403, _FORBIDDEN) if method == "PATCH" else None
        await on.turn(300)
        await on.turn(300)
        on.api.fault = lambda method, path: status(500, "later") if method == "PATCH" else None
        await on.turn(300)

    assert [record.levelname for record in caplog.records if "wait for minutes" in record.message] == ["WARNING"]
    assert on.told == [True, False, False, False]
