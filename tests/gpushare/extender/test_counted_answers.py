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


@pytest.fixture
async def scheduler() -> AsyncIterator[Scheduler]:
    """With an API server that has some pods."""
    api = StubApi(nodes=[NODE], pods=[pod("a"), pod("large", 9), pod("odd", split="much")])
    async with serve(api) as url, http_pool(url) as http:
        yield Scheduler(api, ApiClient(http))


def asked(wanted: dict[str, Any], *nodes: str) -> dict[str, Any]:
    """A question about a pod and nodes, and the victims that a scheduler proposes."""
    victims = {"NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "x"}]}}}
    return {"Pod": wanted, "NodeNames": nodes or ("n",), **victims}


def order(name: str, node: str = "n") -> dict[str, str]:
    """The order to bind a pod."""
    return {"PodName": name, "PodNamespace": "d", "PodUID": f"uid-{name}", "Node": node}


ODD = pod("odd", split="much")


@pytest.mark.parametrize(
    ("verb", "body", "verdict", "reason"),
    [
        ("filter", asked(pod("a"), "n", "unknown"), "granted", ""),
        ("filter", asked(pod("a", 9)), "refused", wire.REASON_NO_CARD_LARGE_ENOUGH),
        ("filter", asked(pod("a"), "x"), "refused", wire.REASON_UNKNOWN_NODE),
        ("filter", asked(ODD), "refused", "bad wish"),
        ("filter", asked(pod("a", "1.5")), "refused", "bad amount"),
        ("prioritize", asked(pod("a")), "granted", ""),
        ("prioritize", asked(ODD), "refused", "bad wish"),
        ("preempt", asked(pod("a", 0)), "granted", ""),
        ("preempt", asked(pod("a", 9)), "refused", ""),
        ("preempt", asked(ODD), "refused", "bad wish"),
        ("bind", order("a"), "granted", ""),
        ("bind", order("large"), "refused", wire.REASON_NO_CARD_LARGE_ENOUGH),
        ("bind", order("large", "n17"), "refused", wire.REASON_UNKNOWN_NODE),
        ("bind", order("odd"), "refused", "bad wish"),
    ],
)
async def test_an_answer_is_counted_and_timed_under_its_verb(
    scheduler: Scheduler, verb: str, body: object, verdict: str, reason: str
) -> None:
    """Once each, with a reason of the contract: neither a text that people wrote nor the name of a node is a label."""
    assert await scheduler.counted(verb, body) == [(verb, verdict, reason)]
    times = {name: (sum(one.counts), one.sum_ns) for name, one in scheduler.metrics.latencies.items()}
    assert times.pop(verb)[0] == 1
    assert set(times.values()) == {(0, 0)}


async def test_a_bind_that_fails_is_counted_by_its_cause(scheduler: Scheduler) -> None:
    """A server's refusal is another outcome than a full card."""
    await scheduler.counted("bind", order("a"))
    assert await scheduler.counted("bind", order("a", "other")) == [("bind", "failed", "other")]
    scheduler.api.fault = lambda method, path: status(500, "later")
    assert await scheduler.counted("bind", order("large")) == [("bind", "failed", "API server")]


async def test_a_pod_with_a_bad_wish_is_explained(scheduler: Scheduler) -> None:
    """The last reason of the nodes is all that is known of it."""
    await scheduler.counted("filter", asked(ODD))
    found = scheduler.verbs.explain("d", "odd")

    assert found is not None
    assert [text.partition(" ")[0] for text in found["reasons"]] == ["annotation"]


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt", "bind"])
async def test_what_is_no_request_and_what_goes_wrong_are_counted(scheduler: Scheduler, verb: str) -> None:
    """Each once, whatever the answer is."""
    assert await scheduler.counted(verb, b"{") == [(verb, "failed", "malformed request")]


@pytest.mark.parametrize("verb", ["filter", "preempt", "bind"])
async def test_an_extender_that_has_not_read_the_cluster_counts_that(scheduler: Scheduler, verb: str) -> None:
    """An extender that has not read the cluster counts the verb as failed: the answer is about no pod."""
    scheduler.is_ready = False
    assert await scheduler.counted(verb, asked(pod("a")) | order("a")) == [(verb, "failed", "not ready")]


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
async def test_scheduler_does_not_wait_for_reports_on_its_answer(verb: str, caplog: pytest.LogCaptureFixture) -> None:
    """Counts, the log and what explain knows come when the loop has its next turn; then they are there."""
    caplog.set_level(logging.INFO)
    loop = asyncio.get_running_loop()
    async with http_pool("http://127.0.0.1:9") as http:
        scheduler = Scheduler(StubApi(), ApiClient(http), afterwards=loop.call_soon)
        await scheduler.counted(verb, asked(pod("a")))
        before = (len(caplog.records), scheduler.verbs.explain("d", "a"))
        await asyncio.sleep(0)

    assert before == (0, None)
    assert [record.getMessage().split()[1] for record in caplog.records] == ["pod=d/a"]
    assert (scheduler.verbs.explain("d", "a") is not None) == (verb == "filter")
    assert scheduler.metrics.requests[verb, "granted", ""] == 1
