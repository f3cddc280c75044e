"""Promises of gpushare.extender.edge.metrics_routes, over real HTTP."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from gpushare.extender.core.book import Book
from gpushare.extender.core.verdicts import Verdicts
from gpushare.extender.edge.metrics_routes import MetricsRoutes
from gpushare.extender.telemetry.exposition import ExtenderExposition
from gpushare.extender.telemetry.extender_metrics import ExtenderMetrics
from tests.gpushare.serving.edges import edge
from tests.servers import Caller, plain_http


@contextlib.asynccontextmanager
async def served(
    exposition: Collector | None = None, is_ready: Callable[[], bool] = lambda: True
) -> AsyncIterator[Caller]:
    """A client of the metrics of an extender that knows nothing."""
    metrics = ExtenderMetrics(time.perf_counter_ns)
    usual = ExtenderExposition(metrics, Book(), Verdicts(), dict, time.monotonic)
    async with (
        edge(MetricsRoutes(exposition or usual, is_ready)) as url,
        plain_http(url) as http,
    ):
        yield http


async def test_prometheus_gets_the_plain_format() -> None:
    """Prometheus gets the plain format, which its parser reads. A HEAD request gets the same length."""
    async with served() as http:
        answer, head = await http.get("/metrics"), await http.request("HEAD", "/metrics")

    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert "gpushare_extender_nodes" in [family.name for family in text_string_to_metric_families(answer.text)]
    assert "_created" not in answer.text
    assert "# {" not in answer.text
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(len(answer.content)))


async def test_probes_are_answered_as_on_the_other_port() -> None:
    """Alive; ready once the book is complete."""
    ready = False
    async with served(is_ready=lambda: ready) as http:
        first = [(await http.get(path)).status_code for path in ("/healthz", "/readyz")]
        ready = True
        then = [(await http.get(path)).status_code for path in ("/healthz", "/readyz")]

    assert (first, then) == ([200, 503], [200, 200])


async def test_nothing_else_is_there_and_nothing_can_be_changed() -> None:
    """Above all no verb."""
    async with served() as http:
        missing = [
            await http.post("/gpushare-scheduler/bind", content=b"{}"),
            await http.get("/"),
            await http.get("/metrics/"),
        ]
        posted = [await http.post("/metrics", content=b"x"), await http.request("DELETE", "/healthz")]

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
