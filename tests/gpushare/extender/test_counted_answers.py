"""Promises of the counters of verbs and routes: each answer to the scheduler once, by its content."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from gpushare import wire
from gpushare.extender.bind import Binder
from gpushare.extender.core.book import Book
from gpushare.extender.core.filter_cache import FilterCache
from gpushare.extender.extender_metrics import ExtenderMetrics
from gpushare.extender.routes import Routes
from gpushare.extender.verbs import Verbs
from gpushare.kube.client import ApiClient
from gpushare.manifests import Node
from gpushare.serving.http_connection import Answer, HttpRequest
from tests.servers import StubApi, http_pool, serve, status

CAPACITY = {"aliyun.com/gpu-mem": "8", "aliyun.com/gpu-count": "1"}
NODE = {"metadata": {"name": "n"}, "status": {"capacity": CAPACITY}}


def pod(name: str, units: object = 2, **annotations: str) -> dict[str, Any]:
    """A pod that waits; annotations are wishes."""
    metadata = {"name": name, "namespace": "d", "uid": f"uid-{name}"}
    wishes = {f"gpushare.aliyun.com/{key}": text for key, text in annotations.items()}
    container = {"name": "c", "resources": {"limits": {"aliyun.com/gpu-mem": units}}}
    return {"metadata": {**metadata, "annotations": wishes}, "spec": {"containers": [container]}}


class Scheduler:
    """Asks an extender that knows one node of one card, and looks at what it counts."""

    def __init__(self, api: StubApi, client: ApiClient, **more: Any) -> None:
        # Each look at the clock is a millisecond later.
        ticks = itertools.count(0, 1_000_000)
        self.api, self.is_ready, self.metrics, book = api, True, ExtenderMetrics(lambda: next(ticks)), Book()
        book.set_node(msgspec.convert(NODE, Node))
        binder = Binder(client, book, clock_ns=time.time_ns, monotonic=time.monotonic)
        self.verbs = Verbs(
            book, binder, FilterCache(), is_ready=lambda: self.is_ready, policy="binpack", monotonic=time.monotonic,
            metrics=self.metrics, **more,
        )  # fmt: skip
        self.routes = Routes(book, self.verbs, lambda: self.is_ready)

    async def counted(self, verb: str, body: object) -> list[tuple[str, str, str]]:
        """Ask; what was counted of it, once for each time."""
        before = self.metrics.requests.copy()
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = self.routes(HttpRequest("POST", f"{wire.PATH_PREFIX}/{verb}", content, is_known=True))
        if not isinstance(answer, Answer):
            await answer
        return sorted((self.metrics.requests - before).elements())

    async def asks(self, verb: str, wanted: dict[str, Any], *nodes: str) -> list[tuple[str, str, str]]:
        """About a pod and nodes."""
        return await self.counted(verb, {"Pod": wanted, "NodeNames": nodes or ("n",)})

    async def binds(self, name: str, node: str = "n") -> list[tuple[str, str, str]]:
        """Orders a bind."""
        order = {"PodName": name, "PodNamespace": "d", "PodUID": f"uid-{name}", "Node": node}
        return await self.counted("bind", order)


@pytest.fixture
async def scheduler() -> AsyncIterator[Scheduler]:
    """With an API server that has some pods."""
    api = StubApi(nodes=[NODE], pods=[pod("a"), pod("large", 9), pod("odd", split="much")])
    async with serve(api) as url, http_pool(url) as http:
        yield Scheduler(api, ApiClient(http))


async def test_filter_counts_if_any_node_holds_the_pod_and_why_not(scheduler: Scheduler) -> None:
    """Filter counts each refusal with a reason of the contract: a text that people wrote is no label."""
    assert await scheduler.asks("filter", pod("a"), "n", "unknown") == [("filter", "granted", "")]
    assert await scheduler.asks("filter", pod("a", 9)) == [("filter", "refused", wire.REASON_NO_CARD_LARGE_ENOUGH)]
    assert await scheduler.asks("filter", pod("a"), "x") == [("filter", "refused", wire.REASON_UNKNOWN_NODE)]
    assert await scheduler.asks("filter", pod("a", split="much")) == [("filter", "refused", "bad wish")]
    assert await scheduler.asks("filter", pod("a", "1.5")) == [("filter", "refused", "bad amount")]


async def test_prioritize_counts_whether_it_had_an_opinion(scheduler: Scheduler) -> None:
    """A pod with annotations that make no sense has been refused before."""
    assert await scheduler.asks("prioritize", pod("a")) == [("prioritize", "granted", "")]
    assert await scheduler.asks("prioritize", pod("a", split="much")) == [("prioritize", "refused", "bad wish")]


async def test_preempt_counts_whether_the_end_of_pods_helps(scheduler: Scheduler) -> None:
    """A pod that no card can hold gets none by it."""
    victims = {"NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "x"}]}}}
    assert await scheduler.counted("preempt", {"Pod": pod("a", 0), **victims}) == [("preempt", "granted", "")]
    assert await scheduler.counted("preempt", {"Pod": pod("a", 9), **victims}) == [("preempt", "refused", "")]
    odd = await scheduler.counted("preempt", {"Pod": pod("a", split="much"), **victims})
    assert odd == [("preempt", "refused", "bad wish")]


async def test_bind_counts_whether_the_pod_is_bound_and_why_not(scheduler: Scheduler) -> None:
    """The name of a node at the end of a text is no label; a server's refusal is another outcome than a full card."""
    assert await scheduler.binds("a") == [("bind", "granted", "")]
    assert await scheduler.binds("large") == [("bind", "refused", wire.REASON_NO_CARD_LARGE_ENOUGH)]
    assert await scheduler.binds("large", "n17") == [("bind", "refused", wire.REASON_UNKNOWN_NODE)]
    assert await scheduler.binds("odd") == [("bind", "refused", "bad wish")]
    assert await scheduler.binds("a", "other") == [("bind", "failed", "other")]
    scheduler.api.fault = lambda method, path: status(500, "later")
    assert await scheduler.binds("large") == [("bind", "failed", "API server")]


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt", "bind"])
async def test_what_is_no_request_and_what_goes_wrong_are_counted(scheduler: Scheduler, verb: str) -> None:
    """Each once, whatever the answer is."""
    assert await scheduler.counted(verb, b"{") == [(verb, "failed", "malformed request")]


@pytest.mark.parametrize("verb", ["filter", "preempt", "bind"])
async def test_an_extender_that_has_not_read_the_cluster_counts_that(scheduler: Scheduler, verb: str) -> None:
    """An extender that has not read the cluster counts the verb as failed: the answer is about no pod."""
    scheduler.is_ready = False
    body = {
        "Pod": pod("a"),
        "NodeNames": ["n"],
        "NodeNameToMetaVictims": {},
        "PodName": "a",
        "PodNamespace": "d",
        "Node": "n",
    }
    assert await scheduler.counted(verb, body) == [(verb, "failed", "not ready")]


async def test_each_verb_is_timed_under_its_name(scheduler: Scheduler) -> None:
    """Once an answer, by the clock that was given."""
    await scheduler.asks("filter", pod("a"))
    await scheduler.asks("prioritize", pod("a"))
    await scheduler.counted("preempt", b"{")
    await scheduler.binds("a")
    await scheduler.binds("a")

    assert {verb: sum(one.counts) for verb, one in scheduler.metrics.latencies.items()} == {
        "filter": 1,
        "prioritize": 1,
        "preempt": 1,
        "bind": 2,
    }
    assert scheduler.metrics.latencies["filter"].sum_ns == 1_000_000


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
async def test_scheduler_does_not_wait_for_reports_on_its_answer(verb: str, caplog: pytest.LogCaptureFixture) -> None:
    """Counts, the log and what explain knows come when the loop has its next turn; then they are there."""
    caplog.set_level(logging.INFO)
    loop = asyncio.get_running_loop()
    async with http_pool("http://127.0.0.1:9") as http:
        scheduler = Scheduler(StubApi(), ApiClient(http), afterwards=loop.call_soon)
        await scheduler.asks(verb, pod("a"), "n")
        before = (len(caplog.records), scheduler.verbs.explain("d", "a"))
        await asyncio.sleep(0)

    assert before == (0, None)
    assert [record.getMessage().split()[1] for record in caplog.records] == ["pod=d/a"]
    assert (scheduler.verbs.explain("d", "a") is not None) == (verb == "filter")
    assert scheduler.metrics.requests[verb, "granted", ""] == 1
