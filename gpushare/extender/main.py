"""Wiring of the extender: settings → client, cache, controller, binder, HTTP server; and its end."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
import sys
import time
from collections.abc import Sequence
from typing import Final

import uvicorn

from gpushare import __version__, logs
from gpushare.errors import UsageError
from gpushare.extender.bind import Binder
from gpushare.extender.cache import SchedulerCache
from gpushare.extender.controller import Controller
from gpushare.extender.http_server import HttpServer
from gpushare.kube import config
from gpushare.settings import ExtenderSettings, extender_settings

_LOG = logging.getLogger(__name__)

# Go's client keeps an idle connection for 90 s; we close later than it, so that it never sends into a closing one.
_KEEP_ALIVE_SECONDS: Final = 120
# How long answers under way may take at the end, in seconds; binds have the client's own limit.
_SHUTDOWN_SECONDS: Final = 10
# Connections that wait to be accepted; uvicorn's own figure.
_BACKLOG: Final = 2048


def main(argv: Sequence[str] | None = None) -> int:
    """The console script; exit code 0 after a signal, 1 after a failure, 2 for flags that make no sense."""
    try:
        settings = extender_settings(sys.argv[1:] if argv is None else argv)
        logs.configure(settings.log_level)
        asyncio.run(_run(settings))
    except UsageError as error:
        print(f"gpushare-extender: {error}", file=sys.stderr)  # noqa: T201  # a usage error is for the person who typed it
        return 2
    except Exception:
        _LOG.exception("ended")
        return 1
    return 0


async def _run(settings: ExtenderSettings) -> None:
    client = config.connect(settings.kubeconfig, settings.context)
    cache = SchedulerCache()
    # The first full read makes most of the objects that ever live; the collector need not walk them again.
    controller = Controller(client, cache, on_ready=gc.freeze)
    binder = Binder(client, cache, clock_ns=time.time_ns, monotonic=time.monotonic)
    app = HttpServer(cache, binder, controller.is_ready)
    address = settings.address or "0.0.0.0"  # noqa: S104  # what the original's manifests need; the warning says so
    if not settings.address:
        _LOG.warning("listening on all addresses, without TLS or authentication; --address 127.0.0.1 closes that")
    listener = listen(address, settings.port)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            interface="asgi3",
            access_log=False,
            log_config=None,
            server_header=False,
            date_header=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
    )
    _LOG.info("starting version=%s address=%s port=%d", __version__, address, listener.getsockname()[1])
    try:
        await _serve(server, listener, controller)
    finally:
        listener.close()
        await binder.close()
        await client.close()


def listen(address: str, port: int) -> socket.socket:
    """A listening TCP socket; port 0 takes a free one. Raises UsageError when that cannot be.

    The protocol is named: asyncio switches Nagle's algorithm off (40 ms an answer) only where it knows that this is TCP.
    """
    try:
        found = socket.getaddrinfo(
            address, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, where = found[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(_BACKLOG)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {address} port {port}: {error.strerror}; see --address and --port"
        ) from error
    return listener


async def _serve(server: uvicorn.Server, listener: socket.socket, controller: Controller) -> None:
    """Serve until a signal; a controller that fails ends the program, so that nobody schedules on a dead book."""
    following = asyncio.create_task(controller.run())
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda: setattr(server, "should_exit", True))
    await asyncio.wait([following, serving], return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    await asyncio.wait([serving])
    following.cancel()
    await asyncio.wait([following])
    if not following.cancelled() and (error := following.exception()) is not None:
        raise error
    serving.result()


if __name__ == "__main__":
    sys.exit(main())
