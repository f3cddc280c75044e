"""The paths at the address of the metrics: ``/metrics`` for Prometheus, and the kubelet's probes. Nothing can be changed there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from prometheus_client.registry import Collector

from gpushare.extender.edge.routes import health
from gpushare.extender.telemetry.exposition import CONTENT_TYPE, scrape
from gpushare.serving.http_connection import TEXT, Answer, HttpRequest

_LOG = logging.getLogger(__name__)

_CONTENT_TYPE: Final = CONTENT_TYPE.encode()
_NOT_FOUND: Final = Answer(404, TEXT, b"404 page not found: /metrics, /healthz and /readyz are here\n")
_NOT_ALLOWED: Final = Answer(405, TEXT, b"Method Not Allowed\n")
_FAILED: Final = Answer(500, TEXT, b"internal error; the extender's log has the details\n")


class MetricsRoutes:
    """The application. ``is_ready``: is the book complete?"""

    def __init__(self, exposition: Collector, is_ready: Callable[[], bool]) -> None:
        self._exposition = exposition
        self._probes = health(is_ready)
        # One scrape at a time: a large one is some MiB, and its slices are all that may be taken from the scheduler's questions.
        self._turn = asyncio.Lock()

    def __call__(self, request: HttpRequest) -> Answer | Awaitable[Answer]:
        """Answer one request."""
        probe = self._probes.get(request.path)
        if probe is None and request.path != "/metrics":
            return _NOT_FOUND
        if request.method not in ("GET", "HEAD"):
            return _NOT_ALLOWED
        return probe() if probe is not None else self._scrape()

    async def _scrape(self) -> Answer:
        try:
            async with self._turn:
                return Answer(200, _CONTENT_TYPE, parts=await scrape(self._exposition))
        except Exception:
            _LOG.exception("failed method=GET path=/metrics")
            return _FAILED
