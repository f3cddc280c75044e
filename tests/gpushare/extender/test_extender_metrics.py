"""Promises of gpushare.extender.extender_metrics: each answer to the scheduler is counted once, by its content, and timed."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare import wire
from gpushare.extender import extender_metrics as module
from gpushare.extender.extender_metrics import BOUNDS, REASONS, VERBS, ExtenderMetrics, reason_of
from gpushare.serving.http_connection import Answer, HttpRequest
from tests.gpushare.extender.rig import Extender, extender, node, pod
from tests.servers import status

NODE = node("n", 8)
ODD = pod("odd", **{"gpushare.aliyun.com/split": "much"})


@pytest.fixture
async def on() -> AsyncIterator[Extender]:
    """An extender with one node of one card, and some pods."""
    async with extender(NODE, pod("a", 2), pod("large", 9), ODD, known=["Node"]) as on:
        yield on


async def counted(on: Extender, verb: str, body: object) -> list[tuple[str, str, str]]:
    """Ask; what was counted of it, once for each time."""
    before = on.metrics.requests.copy()
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = on.routes(HttpRequest("POST", f"{wire.PATH_PREFIX}/{verb}", content, is_known=True))
    if not isinstance(answer, Answer):
        await answer
    return sorted((on.metrics.requests - before).elements())


def asked(wanted: dict[str, Any], *nodes: str) -> dict[str, Any]:
    """A question about a pod and nodes, and the victims that a scheduler proposes."""
    victims = {"NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "x"}]}}}
    return {"Pod": wanted, "NodeNames": nodes or ("n",), **victims}


def order(name: str, node: str = "n") -> dict[str, str]:
    """The order to bind a pod."""
    return {"PodName": name, "PodNamespace": "d", "PodUID": f"uid-{name}", "Node": node}


@pytest.mark.parametrize(
    ("verb", "body", "verdict", "reason"),
    [
        ("filter", asked(pod("a", 2), "n", "unknown"), "granted", ""),
        ("filter", asked(pod("a", 9)), "refused", wire.REASON_NO_CARD_LARGE_ENOUGH),
        ("filter", asked(pod("a", 2), "x"), "refused", wire.REASON_UNKNOWN_NODE),
        ("filter", asked(ODD), "refused", "bad wish"),
        ("filter", asked(pod("a", "1.5")), "refused", "bad amount"),
        ("prioritize", asked(pod("a", 2)), "granted", ""),
        ("prioritize", asked(ODD), "refused", "bad wish"),
        ("preempt", asked(pod("a", 0)), "granted", ""),
        ("preempt", asked(pod("a", 9)), "refused", ""),
        ("preempt", asked(ODD), "refused", "bad wish"),
        ("bind", order("a"), "granted", ""),
        ("bind", order("large"), "refused", wire.REASON_NO_CARD_LARGE_ENOUGH),
        ("bind", order("large", "n17"), "refused", wire.REASON_UNKNOWN_NODE),
        ("bind", order("odd"), "refused", "bad wish"),
        *((verb, b"{", "failed", "malformed request") for verb in VERBS),
    ],
)
async def test_an_answer_is_counted_and_timed_under_its_verb(
    on: Extender, verb: str, body: object, verdict: str, reason: str
) -> None:
    """Once each, with a reason of the contract: neither a text that people wrote nor the name of a node is a label."""
    assert await counted(on, verb, body) == [(verb, verdict, reason)]
    times = {name: (sum(one.counts), one.sum_ns) for name, one in on.metrics.latencies.items()}
    assert times.pop(verb)[0] == 1
    assert set(times.values()) == {(0, 0)}


async def test_a_bind_that_fails_is_counted_by_its_cause(on: Extender) -> None:
    """A server's refusal is another outcome than a full card."""
    await counted(on, "bind", order("a"))
    assert await counted(on, "bind", order("a", "other")) == [("bind", "failed", "other")]
    on.api.fault = lambda method, path: status(500, "later")
    assert await counted(on, "bind", order("large")) == [("bind", "failed", "API server")]


@pytest.mark.parametrize("verb", ["filter", "preempt", "bind"])
async def test_an_extender_that_has_not_read_the_cluster_counts_that(on: Extender, verb: str) -> None:
    """An extender that has not read the cluster counts the verb as failed: the answer is about no pod."""
    on.ready = False
    assert await counted(on, verb, asked(pod("a", 2)) | order("a")) == [(verb, "failed", "not ready")]


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
async def test_scheduler_does_not_wait_for_reports_on_its_answer(verb: str, caplog: pytest.LogCaptureFixture) -> None:
    """Counts, the log and what explain knows come when the loop has its next turn; then they are there."""
    caplog.set_level(logging.INFO, "gpushare.extender.verbs")
    async with extender(NODE, afterwards=asyncio.get_running_loop().call_soon) as on:
        await counted(on, verb, asked(pod("a", 2)))
        before = (len(caplog.records), on.verbs.explain("d", "a"))
        await asyncio.sleep(0)

    assert before == (0, None)
    assert [record.getMessage().split()[1] for record in caplog.records] == ["pod=d/a"]
    assert (on.verbs.explain("d", "a") is not None) == (verb == "filter")
    assert on.metrics.requests[verb, "granted", ""] == 1


class Clock:
    """Each look at it is later by the next step."""

    def __init__(self, *steps: int) -> None:
        self._now, self._steps = 0, iter(steps)

    def __call__(self) -> int:
        self._now += next(self._steps)
        return self._now


@pytest.mark.parametrize(
    ("ns", "bucket"),
    [(0, 0), (99_999, 0), (100_000, 0), (100_001, 1), (10_000_000_000, len(BOUNDS) - 1), (10_000_000_001, len(BOUNDS))],
)
def test_an_answer_is_in_the_bucket_whose_end_it_does_not_pass(ns: int, bucket: int) -> None:
    """From 100 µs to 10 s, and above; an end belongs to its bucket, as in Prometheus' ``le``."""
    metrics = ExtenderMetrics(Clock(5, ns))

    assert metrics.timed("filter")(bytes.upper)(b"a") == b"A"
    latency = metrics.latencies["filter"]
    assert [at for at, count in enumerate(latency.counts) if count] == [bucket]
    assert latency.sum_ns == ns


def test_a_defect_of_a_verb_is_counted_timed_and_raised() -> None:
    """An exception that no one raises on purpose has a fixed reason."""
    metrics = ExtenderMetrics(Clock(0, 7))

    with pytest.raises(ZeroDivisionError), metrics.timed("preempt"):
        raise ZeroDivisionError
    assert metrics.requests["preempt", "failed", "internal error"] == 1
    assert metrics.latencies["preempt"].sum_ns == 7


def test_calls_are_counted_by_outcome() -> None:
    """From 0 on, so that a rate has a beginning."""
    metrics = ExtenderMetrics(Clock())
    assert metrics.calls == {"called": 0, "failed": 0}
    for is_done in (True, True, False):
        metrics.count_call(is_done)

    assert metrics.calls == {"called": 2, "failed": 1}


def test_every_reason_of_the_scheduler_is_a_label() -> None:
    """Every reason of the scheduler is a label, also one that is added to wire.py later."""
    named = {value for name, value in vars(wire).items() if name.startswith("REASON_")}

    assert named == REASONS
    assert all(reason_of(reason) == reason for reason in named)


@given(st.text() | st.sampled_from(sorted(REASONS)).flatmap(lambda reason: st.text().map(lambda rest: reason + rest)))
def test_no_text_becomes_a_label(text: str) -> None:
    """Names of nodes and pods would be series without end."""
    assert reason_of(text) in REASONS | {"", module.OTHER}
