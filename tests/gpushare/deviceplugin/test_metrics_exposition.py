"""Promises of gpushare.deviceplugin.metrics_exposition, over real HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpushare.bounds import BODY_BYTES_OF_STRANGERS, METRICS_CONNECTIONS
from gpushare.deviceplugin.core.plugin_metrics import PluginMetrics
from gpushare.deviceplugin.metrics_exposition import listen, serve
from tests.servers import Caller, plain_http


@contextlib.asynccontextmanager
async def served(metrics: PluginMetrics | None = None) -> AsyncIterator[Caller]:
    """A client of a server on a free port of loopback."""
    listener = listen(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    serving = asyncio.create_task(serve(metrics or PluginMetrics(), listener))
    try:
        async with plain_http(f"http://127.0.0.1:{port}") as client:
            yield client
    finally:
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


async def test_prometheus_gets_text() -> None:
    """In the format that each release of it takes, whatever it prefers."""
    async with served() as client:
        plain = await client.get("/metrics")
        openmetrics = await client.get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})

    assert plain.headers["content-type"].startswith("text/plain")
    assert "\ngpushare_held_containers 0.0\n" in plain.text
    assert "\ngpushare_log_lines_dropped_total 0.0\n" in plain.text
    assert (openmetrics.headers["content-type"], openmetrics.text) == (plain.headers["content-type"], plain.text)
    assert "gpushare_held_containers" in [family.name for family in text_string_to_metric_families(plain.text)]


async def test_the_other_paths_and_methods() -> None:
    """Alive; nothing else is there, nothing can be changed, and no large body is read."""
    async with served() as client:
        healthy = await client.get("/healthz")
        missing = await client.get("/")
        posted = await client.post("/metrics", content=b"x")
        uploaded = await client.post("/metrics", content=b"x" * (BODY_BYTES_OF_STRANGERS.most + 1))

    assert (healthy.status_code, healthy.text) == (200, "ok")
    assert (missing.status_code, "/metrics and /healthz" in missing.text) == (404, True)
    assert (posted.status_code, uploaded.status_code) == (405, 413)


async def test_a_failing_scrape_is_an_error_and_the_server_lives_on(caplog: pytest.LogCaptureFixture) -> None:
    """The traceback is the log's, not the scraper's."""
    metrics = PluginMetrics()

    def broken() -> dict[str, str]:
        raise ZeroDivisionError("secret")

    metrics.held = broken
    async with served(metrics) as client:
        with caplog.at_level(logging.CRITICAL):
            answer = await client.get("/metrics")
        healthy = await client.get("/healthz")

    assert (answer.status_code, "secret" in answer.text, healthy.status_code) == (500, False, 200)


async def test_silent_connections_leave_the_plugin_its_files() -> None:
    """More than there is room for: those that have waited longest are closed, and a scrape is answered."""
    async with served() as client:
        where = ("127.0.0.1", urlsplit(client.url).port or 0)
        silent = [await asyncio.open_connection(*where) for _ in range(METRICS_CONNECTIONS.most + 1)]
        assert (await client.get("/metrics")).status_code == 200
        assert await silent[0][0].read() == b""
        assert await silent[1][0].read() == b""
        for _, writer in silent:
            writer.close()
