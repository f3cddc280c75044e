"""Where the extender listens, plain or over TLS: how long a client may take, and an end that finishes what is under way."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from dataclasses import dataclass
from typing import Final

from gpushare.errors import UsageError
from gpushare.extender.edge.http_connection import Application, Connections, HttpConnection

_HANDSHAKE_SECONDS: Final = 10.0
# Connections that wait to be accepted.
_BACKLOG: Final = 2048


@dataclass(frozen=True, slots=True)
class Limits:
    """How long what may take, in seconds."""

    idle: float = 120.0
    """Between two requests. Go's client keeps a connection for 90 s; we close later, so that it never sends into a closing one."""
    transfer: float = 60.0
    """A request on its way in, an answer on its way out; 180 MB of nodes take two seconds on a slow network."""
    shutdown: float = 10.0
    """Answers under way at the end; binds have the client's own limit."""
    sweep: float = 5.0
    """How often connections are looked at."""


class HttpEdge:
    """One listening socket and its connections."""

    def __init__(self, application: Application, listener: socket.socket, limits: Limits = Limits()) -> None:
        self._application = application
        self._limits = limits
        self._listener = listener
        self._connections = Connections()
        self._server: asyncio.Server | None = None
        self._sweeping: asyncio.Task[None] | None = None

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        """Accept connections; over TLS a caller is known by a certificate that it has shown."""
        self._sweeping = asyncio.create_task(self._sweep())
        await self.renew(tls)

    async def renew(self, tls: ssl.SSLContext | None) -> None:
        """Accept new connections with these certificates; those that are open keep theirs."""
        loop = asyncio.get_running_loop()
        is_known = _has_certificate if tls is not None else _anybody
        former = self._server
        self._server = await loop.create_server(
            lambda: HttpConnection(self._application, self._connections, is_known, loop.time),
            sock=self._listener.dup(),
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else _HANDSHAKE_SECONDS,
            backlog=_BACKLOG,
        )
        if former is not None:
            former.close()

    async def stop(self) -> None:
        """Accept nobody, finish what is under way, close the rest."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        if self._server is not None:
            self._server.close()
        self._listener.close()
        for connection in tuple(self._connections.opened):
            connection.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._limits.shutdown):
                await self._connections.none_left.wait()
        for connection in tuple(self._connections.opened):
            connection.abort()

    async def _sweep(self) -> None:
        """Nobody holds a connection for ever by doing nothing, or by being slow."""
        while True:
            await asyncio.sleep(self._limits.sweep)
            for connection in tuple(self._connections.opened):
                if connection.waits_longer_than(self._limits.idle, self._limits.transfer):
                    connection.abort()


def listen(address: str, port: int, flags: str = "--address and --port") -> socket.socket:
    """A listening TCP socket; port 0 takes a free one. Raises UsageError when that cannot be; ``flags`` are what said where.

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
        raise UsageError(f"cannot listen on {address} port {port}: {error.strerror}; see {flags}") from error
    return listener


def _has_certificate(transport: asyncio.Transport) -> bool:
    """One of another authority has not come so far."""
    return bool(transport.get_extra_info("peercert"))


def _anybody(_transport: asyncio.Transport) -> bool:
    """Without TLS nobody can be told from anybody else."""
    return True
