"""The HTTP edge of the plugin: ``/metrics`` for Prometheus and ``/healthz``, off unless an address is given."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Final

from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import CollectorRegistry

from gpushare.serving import http_edge
from gpushare.serving.http_connection import TEXT, Answer, HttpRequest

_LOG = logging.getLogger(__name__)

# The plain format, which every Prometheus takes.
_ENCODE, _CONTENT_TYPE = choose_encoder("")
_OK: Final = Answer(200, TEXT, b"ok")
_NOT_FOUND: Final = Answer(404, TEXT, b"404 page not found: /metrics and /healthz are here\n")
_NOT_ALLOWED: Final = Answer(405, TEXT, b"Method Not Allowed\n")
_FAILED: Final = Answer(500, TEXT, b"internal error; the plugin's log has the details\n")


class MetricsServer:
    """The application: two paths to read, nothing to change."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def __call__(self, request: HttpRequest) -> Answer:
        """Answer one request; an unexpected failure is logged and answered, and the plugin lives on."""
        if request.path not in ("/metrics", "/healthz"):
            return _NOT_FOUND
        if request.method not in ("GET", "HEAD"):
            return _NOT_ALLOWED
        return _OK if request.path == "/healthz" else self._scrape()

    def _scrape(self) -> Answer:
        try:
            return Answer(200, _CONTENT_TYPE.encode(), _ENCODE(self._registry))
        except Exception:
            _LOG.exception("failed method=GET path=/metrics")
            return _FAILED


def listen(address: tuple[str, int]) -> socket.socket:
    """A listening socket on ``(host, port)``; port 0 takes a free one, which is logged. Raises UsageError.

    Open it before anything is announced: a port that is taken is a mistake of the manifest, and must show immediately.
    """
    host, port = address
    listener = http_edge.listen(host, port, flags="--metrics-address (port 0 takes a free one)")
    _LOG.info("metrics at address=%s port=%d path=/metrics", host, listener.getsockname()[1])
    return listener


async def serve(registry: CollectorRegistry, listener: socket.socket) -> None:
    """Answer scrapes until cancelled; one under way is finished first. Closes the listener."""
    edge = http_edge.HttpEdge(MetricsServer(registry), listener, http_edge.OF_METRICS)
    await edge.start()
    try:
        await asyncio.Event().wait()
    finally:
        await edge.stop()
