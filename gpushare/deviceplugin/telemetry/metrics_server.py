"""The HTTP edge of the plugin: ``/metrics`` for Prometheus and ``/healthz``, off unless an address is given."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import uvicorn
from prometheus_client import make_asgi_app
from prometheus_client.registry import CollectorRegistry

from gpushare.errors import UsageError

_LOG = logging.getLogger(__name__)

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
_TEXT: Final = b"text/plain; charset=utf-8"
_BACKLOG: Final = 16
# How long a scrape under way may take when we stop, in seconds.
_GRACE_SECONDS: Final = 1


class MetricsServer:
    """The ASGI application: two paths to read, nothing to change."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._metrics: Any = make_asgi_app(registry)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request; an unexpected failure is logged and answered, and the plugin lives on."""
        if scope["type"] != "http":
            return
        method, path = scope["method"], scope["path"]
        if path not in ("/metrics", "/healthz"):
            await _respond(send, 404, b"404 page not found: /metrics and /healthz are here\n")
        elif method not in ("GET", "HEAD"):
            await _respond(send, 405, b"Method Not Allowed\n")
        elif path == "/healthz":
            await _respond(send, 200, b"ok")
        else:
            await self._scrape(scope, receive, send)

    async def _scrape(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        try:
            await self._metrics(scope, receive, send)
        except Exception:
            _LOG.exception("failed method=%s path=%r", scope["method"], scope["path"])
            await _respond(send, 500, b"internal error; the plugin's log has the details\n")


async def _respond(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", _TEXT), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class _Server(uvicorn.Server):
    """uvicorn, without its hold on signals: those are the plugin's own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave them alone."""
        yield


def listen(address: tuple[str, int]) -> socket.socket:
    """A listening socket on ``(host, port)``; port 0 takes a free one, which is logged. Raises UsageError.

    Open it before anything is announced: a port that is taken is a mistake of the manifest, and to be seen at once.
    """
    host, port = address
    try:
        found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )
        listener = _bound(found[0])
    except OSError as error:
        raise UsageError(
            f"cannot serve metrics on {host} port {port}: {error.strerror}; give --metrics-address an address of this "
            "machine and a port that nobody has (0 takes a free one)"
        ) from error
    _LOG.info("metrics at address=%s port=%d path=/metrics", host, listener.getsockname()[1])
    return listener


def _bound(found: tuple[int, int, int, str, Any]) -> socket.socket:
    family, kind, protocol, _, where = found
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


async def serve(registry: CollectorRegistry, listener: socket.socket) -> None:
    """Answer scrapes until cancelled; one under way is finished first. Closes the listener."""
    config = uvicorn.Config(
        MetricsServer(registry),
        http="httptools",
        ws="none",
        lifespan="off",
        interface="asgi3",
        access_log=False,
        log_config=None,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await asyncio.shield(serving)
    finally:
        server.should_exit = True
        await serving
        listener.close()
