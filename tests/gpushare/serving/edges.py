"""The HTTP server on a free port of loopback, and a client that sends byte by byte."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator

from gpushare.serving.http_connection import Application
from gpushare.serving.http_edge import HttpEdge, Limits, listen

_USUAL = Limits()


@contextlib.asynccontextmanager
async def running(
    application: Application, limits: Limits = _USUAL, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[HttpEdge, str]]:
    """The server and its URL; the test may end it before."""
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    server = HttpEdge(application, listener, limits)
    await server.start(tls)
    try:
        yield server, f"{'http' if tls is None else 'https'}://127.0.0.1:{port}"
    finally:
        if listener.fileno() >= 0:
            await server.stop()


@contextlib.asynccontextmanager
async def edge(
    application: Application, limits: Limits = _USUAL, tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """Its URL."""
    async with running(application, limits, tls) as (_, url):
        yield url
