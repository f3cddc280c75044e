"""Promises of gpushare.extender.exposition, read back by Prometheus's own parser."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgspec
import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from gpushare import wire
from gpushare.extender.core.book import Book
from gpushare.extender.core.filter import FilterResult
from gpushare.extender.core.filter_cache import FilterCache
from gpushare.extender.exposition import ExtenderExposition, MetricsRoutes, scrape
from gpushare.extender.extender_metrics import BOUNDS, FAILURES, REASONS, ExtenderMetrics
from gpushare.kube.reflector import Contact
from gpushare.manifests import Node, Pod
from gpushare.model.cards import CardFacts
from gpushare.model.conditions import time_text
from gpushare.model.node import Booking
from gpushare.model.pod import Request
from tests.gpushare.extender.rig import node, pod, publishing
from tests.gpushare.serving.edges import edge
from tests.servers import Caller, plain_http

ONE = Request(1)
T4 = CardFacts(0, "GPU-0", "Tesla T4", 15079, 14)

# Everything that we show: name, kind, labels of its samples. Dashboards and alerts are written against it.
CONTRACT = {
    "gpushare_log_lines_dropped_total": ("counter", set()),
    "gpushare_build_info": ("gauge", {"version"}),
    "gpushare_extender_open_to_everybody": ("gauge", set()),
    "gpushare_extender_requests_total": ("counter", {"verb", "verdict", "reason"}),
    "gpushare_extender_request_duration_seconds_bucket": ("histogram", {"verb", "le"}),
    "gpushare_extender_request_duration_seconds_count": ("histogram", {"verb"}),
    "gpushare_extender_request_duration_seconds_sum": ("histogram", {"verb"}),
    "gpushare_extender_calls_total": ("counter", {"outcome"}),
    "gpushare_extender_watch_age_seconds": ("gauge", {"resource"}),
    "gpushare_extender_watch_relists_total": ("counter", {"resource"}),
    "gpushare_extender_unreadable_objects_total": ("counter", {"resource"}),
    "gpushare_book_audits_total": ("counter", {"outcome"}),
    "gpushare_book_drift_units": ("gauge", {"kind"}),
    "gpushare_book_drift_objects": ("gauge", {"kind"}),
    "gpushare_extender_pods": ("gauge", {"state"}),
    "gpushare_extender_waiting_pods": ("gauge", {"reason"}),
    "gpushare_extender_nodes": ("gauge", set()),
    "gpushare_extender_cards": ("gauge", {"model", "state"}),
    "gpushare_extender_card_units": ("gauge", {"node", "card", "uuid", "model"}),
    "gpushare_extender_card_booked_units": ("gauge", {"node", "card", "uuid", "model"}),
    "gpushare_extender_card_bytes": ("gauge", {"node", "card", "uuid", "model"}),
    "gpushare_extender_card_booked_bytes": ("gauge", {"node", "card", "uuid", "model"}),
    "gpushare_extender_largest_free_bytes": ("gauge", {"model"}),
    "gpushare_extender_largest_free_units": ("gauge", {"model"}),
}


class Extender:
    """An extender's state, and its series."""

    def __init__(self) -> None:
        self.now, self.contacts = 100.0, {"nodes": Contact(lists=1), "pods": Contact(lists=1)}
        self.metrics, self.book, self.filter_cache = ExtenderMetrics(lambda: 0), Book(), FilterCache()
        self.exposition = ExtenderExposition(
            self.metrics,
            self.book,
            self.filter_cache,
            lambda: self.contacts,
            monotonic=lambda: self.now,
            wall=lambda: 1000.0,
        )

    def add(self, name: str) -> None:
        """A node that publishes its card."""
        self.book.set_node(msgspec.convert(publishing(name, T4), Node))

    def add_original(self, name: str, *cards: int) -> None:
        """A node of the Go plugin."""
        self.book.set_node(msgspec.convert(node(name, *cards), Node))

    def assume(self, node: str, pod: str, units: int) -> None:
        """A bind is under way."""
        self.book.assume(node, Booking(f"uid-{pod}", "d", pod, units, ((0, units),)))

    def refuse(self, name: str, result: FilterResult, request: Request | None = ONE) -> None:
        """A pod that is pending got this answer."""
        self.filter_cache.note(self.wait(name).metadata, request, result, b"", 0)

    def wait(self, name: str, since: int = 0, report: str = "", **spec: Any) -> Pod:
        """A pod of one unit is pending since then; its scheduler reported so."""
        document = pod(name, 1)
        document["metadata"]["creationTimestamp"] = time_text(since)
        document["spec"] |= spec
        document["status"]["conditions"] = (
            [{"type": "PodScheduled", "status": "False", "reason": report}] if report else []
        )
        waiting = msgspec.convert(document, Pod)
        self.book.set_pod(waiting)
        return waiting

    async def families(self) -> list[Metric]:
        """The page that Prometheus reads."""
        return list(text_string_to_metric_families((await scrape(self.exposition)).decode()))

    async def values(self, name: str, *labels: str) -> dict[Any, float]:
        """The values of one series by these labels; a text for one label, a tuple for several."""
        found: dict[Any, float] = {}
        for sample in (one for family in await self.families() for one in family.samples if one.name == name):
            key = tuple(sample.labels[label] for label in labels)
            assert key not in found, f"{name}{key} is there twice"
            found[key[0] if len(key) == 1 else key] = sample.value
        return found


async def test_names_kinds_and_labels_are_a_contract() -> None:
    """All of them, exactly; what is shown stays as it is called."""
    extender = Extender()
    extender.add("a")
    extender.add_original("b", 4, 4)
    extender.contacts["pods"].last_answer_at = 99.0
    extender.metrics.drift = {"missing": (3, 1)}
    families = await extender.families()

    shown = {(one.name, family.type, frozenset(one.labels)) for family in families for one in family.samples}
    assert shown == {(name, kind, frozenset(labels)) for name, (kind, labels) in CONTRACT.items()}
    assert all(family.documentation.endswith(".") for family in families)


async def test_what_is_known_beforehand_begins_at_nothing() -> None:
    """A rate needs a beginning: each verb, each reason of filter, each failure, each bucket; nothing else yet."""
    extender = Extender()
    requests = await extender.values("gpushare_extender_requests_total", "verb", "verdict", "reason")

    assert requests == dict.fromkeys(
        [(verb, "granted", "") for verb in ("filter", "prioritize", "preempt", "bind")]
        + [("filter", "refused", reason) for reason in REASONS]
        + [(verb, "failed", reason) for verb in ("filter", "prioritize", "preempt", "bind") for reason in FAILURES],
        0,
    )
    assert set((await extender.values("gpushare_extender_waiting_pods", "reason")).values()) == {0}
    assert await extender.values("gpushare_extender_nodes") == {(): 0}


@pytest.mark.parametrize("missing", ["nodes", "pods"])
async def test_a_book_that_is_not_read_yet_has_no_sample(missing: str) -> None:
    """Before nodes and pods are listed nothing is known of nodes, cards and pods that wait; an alert sees that they are absent."""
    extender = Extender()
    extender.add("a")
    extender.contacts[missing] = Contact()
    shown = {sample.name for family in await extender.families() for sample in family.samples}

    of_book = ("_nodes", "_pods", "_cards", "_waiting_pods", "_card_units", "_largest_free_bytes")
    assert [name for name in of_book if f"gpushare_extender{name}" in shown] == []


async def test_answers_are_counted_and_timed() -> None:
    """Buckets hold all that are no longer; the sum is in seconds."""
    extender = Extender()
    extender.metrics.count("filter", "granted")
    extender.metrics.latencies["filter"].add(200_000)
    extender.metrics.latencies["filter"].add(20_000_000_000)
    name = "gpushare_extender_request_duration_seconds"
    buckets = await extender.values(f"{name}_bucket", "verb", "le")

    requests = await extender.values("gpushare_extender_requests_total", "verb", "verdict", "reason")
    assert {key: count for key, count in requests.items() if count} == {("filter", "granted", ""): 1}
    assert [buckets["filter", le] for le in ("0.0001", "0.00025", "10.0", "+Inf")] == [0, 1, 1, 2]
    assert len(buckets) == 4 * (len(BOUNDS) + 1)
    assert (await extender.values(f"{name}_sum", "verb"))["filter"] == pytest.approx(20.0002)
    assert (await extender.values(f"{name}_count", "verb"))["filter"] == 2


@pytest.mark.parametrize(
    ("series", "label", "before", "after"),
    [
        ("gpushare_extender_watch_age_seconds", "resource", {}, {"pods": 40}),
        ("gpushare_extender_watch_relists_total", "resource", {"nodes": 0, "pods": 0}, {"nodes": 0, "pods": 2}),
        ("gpushare_book_drift_units", "kind", {}, {"missing": 7, "phantom": 0}),
        ("gpushare_book_drift_objects", "kind", {}, {"missing": 2, "phantom": 0}),
        ("gpushare_book_audits_total", "outcome", {"done": 0, "failed": 0}, {"done": 3, "failed": 1}),
        ("gpushare_extender_calls_total", "outcome", {"called": 0, "failed": 0}, {"called": 1, "failed": 2}),
    ],
)
async def test_watches_audits_and_calls_are_shown(
    series: str, label: str, before: dict[str, float], after: dict[str, float]
) -> None:
    """Counters begin at nothing, so that a rate has a beginning; an age and drift are not there before they are known."""
    extender = Extender()
    assert await extender.values(series, label) == before
    extender.contacts["pods"] = Contact(last_answer_at=60.0, lists=3)
    extender.metrics.drift = {"missing": (7, 2), "phantom": (0, 0)}
    extender.metrics.audits.update(done=3, failed=1)
    extender.metrics.calls.update(called=1, failed=2)

    assert await extender.values(series, label) == after


async def test_cards_of_the_original_have_units_alone() -> None:
    """A node of the Go plugin reports neither its unit nor the model of a card. (The bursts judge the series of our nodes.)"""
    extender = Extender()
    extender.add_original("o", 8)
    extender.assume("o", "q", 5)
    prefix, labels = "gpushare_extender_", ("node", "card", "uuid", "model")

    assert await extender.values(f"{prefix}card_units", *labels) == {("o", "0", "", ""): 8}
    assert await extender.values(f"{prefix}card_booked_units", *labels) == {("o", "0", "", ""): 5}
    assert await extender.values(f"{prefix}largest_free_units", "model") == {"": 3}
    for name in ("card_bytes", "card_booked_bytes", "largest_free_bytes"):
        assert await extender.values(f"{prefix}{name}", "model") == {}


async def test_pods_wait_by_reason_until_they_are_bound_or_gone() -> None:
    """One reason each; text of a pod's own annotation is no label. A scheduler has a minute for a new pod."""
    extender = Extender()
    full = FilterResult([], {wire.REASON_NO_SLOT: ["b"]}, {wire.REASON_NOT_A_GPU_NODE: ["a"]})
    extender.refuse("p", full)
    extender.refuse("q", full)
    extender.refuse("hopeless", FilterResult([], {}, {wire.REASON_NOT_A_GPU_NODE: ["a"]}))
    extender.refuse("odd", FilterResult([], {}, {"annotation x is odd": ["a"]}), request=None)
    extender.refuse("strange", FilterResult([], {}, {"node n17 is on fire": ["a"]}))
    extender.refuse("held", FilterResult(["a"], {}, {}))
    extender.wait("sum", report="Unschedulable")
    extender.wait("gated", schedulingGates=[{}])
    extender.wait("unseen", since=900)
    extender.wait("new", since=990)
    extender.wait("else", containers=[])
    extender.refuse("gone", full)
    extender.book.remove_pod(extender.wait("gone").metadata)
    waiting = await extender.values("gpushare_extender_waiting_pods", "reason")

    assert {reason: count for reason, count in waiting.items() if count} == {
        wire.REASON_NO_SLOT: 2,
        wire.REASON_NOT_A_GPU_NODE: 1,
        "bad wish": 1,
        "other": 1,
        "refused by its scheduler": 1,
        "scheduling gates": 1,
        "no report of its scheduler": 1,
    }


async def test_a_long_scrape_is_made_in_slices_of_one_moment() -> None:
    """Others have their turns in between; what they change is in the next one; each family stands together under one head."""
    extender = Extender()
    extender.exposition.cards_a_piece, extender.exposition.pods_a_piece = 2, 1
    for number in range(10):
        extender.add(f"n{number}")
        extender.refuse(f"p{number}", FilterResult([], {wire.REASON_NO_CARD_FITS: ["n0"]}, {}))
    pieces = Counter(family.name for family in extender.exposition.collect())
    assert (pieces["gpushare_extender_card_units"], pieces["gpushare_extender_waiting_pods"]) == (5, 11)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            # Once the walk over the nodes is under way.
            if turns == 30:
                extender.add("late")
                extender.book.remove_node("n9")
            await asyncio.sleep(0)

    running = asyncio.create_task(others())
    text = (await scrape(extender.exposition)).decode()
    running.cancel()
    samples = [one for family in text_string_to_metric_families(text) for one in family.samples]
    nodes = [one.labels["node"] for one in samples if one.name == "gpushare_extender_card_units"]

    assert turns > 30
    assert nodes == [f"n{number}" for number in range(10)]
    heads = [line for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads))
    assert (await extender.values("gpushare_extender_waiting_pods", "reason"))[wire.REASON_NO_CARD_FITS] == 10
    assert (await extender.values("gpushare_extender_nodes")) == {(): 10}


@contextlib.asynccontextmanager
async def served(
    exposition: Collector | None = None, is_ready: Callable[[], bool] = lambda: True
) -> AsyncIterator[Caller]:
    """A client of the metrics of an extender that knows nothing."""
    metrics = ExtenderMetrics(time.perf_counter_ns)
    usual = ExtenderExposition(metrics, Book(), FilterCache(), dict, time.monotonic)
    async with (
        edge(MetricsRoutes(exposition or usual, is_ready)) as url,
        plain_http(url) as http,
    ):
        yield http


async def test_nothing_but_metrics_and_probes_is_there() -> None:
    """The metrics in the plain format, alive, ready once the book is complete, and above all no verb."""
    ready = False
    async with served(is_ready=lambda: ready) as http:
        answer = await http.get("/metrics")
        probes = [(await http.get(path)).status_code for path in ("/healthz", "/readyz")]
        ready = True
        assert (probes, (await http.get("/readyz")).status_code) == ([200, 503], 200)
        missing = [
            await http.post("/gpushare-scheduler/bind", content=b"{}"),
            await http.get("/"),
            await http.get("/metrics/"),
        ]
        posted = [await http.post("/metrics", content=b"x"), await http.request("DELETE", "/healthz")]

    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert "gpushare_extender_nodes" in [family.name for family in text_string_to_metric_families(answer.text)]
    assert ("_created" in answer.text, "# {" in answer.text) == (False, False)
    assert [answer.status_code for answer in missing] == [404, 404, 404]
    assert "/metrics, /healthz and /readyz" in missing[0].text
    assert [answer.status_code for answer in posted] == [405, 405]


async def test_failing_scrape_is_an_error_and_the_next_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    """The traceback is the log's, not the scraper's."""

    class Broken(Collector):
        def collect(self) -> Iterator[Metric]:
            raise ZeroDivisionError("secret")

    async with served(Broken()) as http:
        with caplog.at_level(logging.CRITICAL):
            answers = [await http.get("/metrics"), await http.get("/metrics")]

    assert [(answer.status_code, "secret" in answer.text) for answer in answers] == [(500, False)] * 2
