"""Listens, plain or over TLS: how many connections there may be, how long a client may take, and an end that finishes what is
under way.

Connections are accepted here and not by asyncio's server: that logs a traceback for each second without a free file descriptor,
accepts no connection for that second, and does not count connections with an incomplete handshake.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import resource
import socket
import ssl
from asyncio import constants, selector_events, sslproto
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from gpushare.bounds import (
    BODY_BYTES,
    BODY_BYTES_OF_STRANGERS,
    BYTES_IN_FLIGHT,
    CONNECTIONS,
    METRICS_BYTES_IN_FLIGHT,
    METRICS_CONNECTIONS,
    Bound,
)
from gpushare.cli.settings import TlsFiles
from gpushare.errors import UsageError
from gpushare.kube.tls import FollowedContext
from gpushare.serving.http_connection import Application, HttpConnection
from gpushare.serving.open_connections import Connections

_LOG = logging.getLogger(__name__)

# The most that asyncio reads in one go, and that it has read over TLS and not decrypted; it has parameters for neither. With its
# own 256 KiB each silent connection over TLS holds as much, and a read of tiny chunks keeps all other connections waiting.
_READ_KIB: Final = 16
sslproto.SSLProtocol.max_size = _READ_KIB * 1024
selector_events._SelectorTransport.max_size = _READ_KIB * 1024  # type: ignore[attr-defined]  # noqa: SLF001  # see above
constants.FLOW_CONTROL_HIGH_WATER_SSL_READ = _READ_KIB  # type: ignore[misc]  # see above
_HANDSHAKE_SECONDS: Final = 10.0
# Connections that wait to be accepted.
_BACKLOG: Final = 2048
# Connections accepted before others have their turn.
_AT_ONCE: Final = 64
# File descriptors that the rest of the program needs: 32 connections to the API server, the metrics' clients, files.
_OTHER_DESCRIPTORS: Final = 128
_FEWEST_CONNECTIONS: Final = 16
# Until the next attempt if none could be closed, and between two log lines that say so, in seconds.
_RETRY_SECONDS: Final = 0.05
_REPORT_SECONDS: Final = 10.0
# glibc keeps what closed connections have freed, some 60 KiB each over TLS; this gives back its whole pages. It takes less than a
# millisecond in an extender of 5,000 nodes, and some hundred of them at worst. Other C libraries do not have it.
give_back_memory: Final = getattr(ctypes.CDLL(None), "malloc_trim", bool)
_MANY_CLOSED: Final = 128


@dataclass(frozen=True, slots=True)
class Limits:
    """How long each thing may take, in seconds, and how many connections there may be."""

    idle: float = 120.0
    """Between two requests. Go's client keeps a connection for 90 s; we close later, so that it never sends into a closing one."""
    transfer: float = 60.0
    """A request on its way in, an answer on its way out; 180 MB of nodes take two seconds on a slow network."""
    shutdown: float = 2.0
    """Answers under way at the end; binds have the client's own limit."""
    sweep: float = 5.0
    """How often connections are looked at."""
    give_back: float = 15.0
    """At most so often memory of closed connections is given back to the system."""
    connections: int = CONNECTIONS.most
    """Fewer if the process may not open so many files."""
    bytes_in_flight: Bound = BYTES_IN_FLIGHT
    """Bodies on their way in and answers on their way out, of all connections together."""
    largest_body: Bound = BODY_BYTES
    """The most bytes of one request of a caller that is known."""


OF_METRICS: Final = Limits(
    shutdown=1,
    connections=METRICS_CONNECTIONS.most,
    bytes_in_flight=METRICS_BYTES_IN_FLIGHT,
    largest_body=BODY_BYTES_OF_STRANGERS,
)
"""The limits of a listener that only answers scrapes and probes."""


class HttpEdge:
    """One listening socket and its ``connections``."""

    def __init__(self, application: Application, listener: socket.socket, limits: Limits = Limits()) -> None:
        self._application = application
        self._limits = limits
        self._listener = listener
        self._most = min(limits.connections, _descriptors())
        self.connections = Connections(limits.bytes_in_flight)
        self._arriving: set[asyncio.Task[None]] = set()
        self._tls: ssl.SSLContext | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._reported_at = -_REPORT_SECONDS
        # The most connections since memory was last given back, and when that was.
        self._peak, self._gave_back_at = 0, -limits.give_back

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        """Accept connections; over TLS a caller is known by a certificate that it has shown."""
        self._tls = tls
        self._listener.setblocking(False)
        self._sweeping = asyncio.create_task(self._sweep())
        self._listen()

    async def stop(self) -> None:
        """Accept no more connections, finish what is under way, close the rest."""
        loop = asyncio.get_running_loop()
        if self._sweeping is not None:
            self._sweeping.cancel()
        if self._retry is not None:
            self._retry.cancel()
        loop.remove_reader(self._listener)
        self._listener.close()
        for connection in self.connections:
            connection.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._limits.shutdown):
                await self.connections.none_left.wait()
        for connection in self.connections:
            connection.abort()

    def _listen(self) -> None:
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        """Accept connections that wait, a few at a time so that other work has its turn."""
        for _ in range(_AT_ONCE):
            try:
                client, _ = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(error)
                return
            if len(self.connections) >= self._most:
                # Instead of the one that has waited longest for its next request, which frees its file only after this.
                if self.connections.make_room():
                    self._admit(client)
                else:
                    client.close()
                return
            self._admit(client)

    def _pause(self, error: OSError) -> None:
        """No file descriptor is free: close the connection that is needed least, and go on once it is closed."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener)
        self._retry = loop.call_later(0 if self.connections.make_room() else _RETRY_SECONDS, self._listen)
        if loop.time() - self._reported_at >= _REPORT_SECONDS:
            self._reported_at = loop.time()
            _LOG.warning("cannot accept a connection open=%d error=%s", len(self.connections), error.strerror)

    def _admit(self, client: socket.socket) -> None:
        client.setblocking(False)
        connection = HttpConnection(
            self._application,
            self.connections,
            is_tls=self._tls is not None,
            now=asyncio.get_running_loop().time,
            largest_body=self._limits.largest_body,
            client=client,
        )
        self._peak = max(self._peak, len(self.connections))
        task = asyncio.create_task(self._greet(connection, client))
        self._arriving.add(task)
        task.add_done_callback(self._arriving.discard)

    async def _greet(self, connection: HttpConnection, client: socket.socket) -> None:
        tls = self._tls
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                client,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else _HANDSHAKE_SECONDS,
            )
        except OSError as error:
            # TLS errors are such too. Its way here refers to itself, and to all that the handshake held.
            error.__traceback__ = None
            _LOG.debug("no handshake error=%s", error)
        finally:
            connection.end_arrival()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(self._limits.sweep)
            self._close_slow_connections()
            self._give_memory_back()

    def _close_slow_connections(self) -> None:
        """Close connections that do nothing for too long, or are too slow.

        It is a function of its own, because a loop's variable refers to its last connection as long as the function runs.
        """
        for connection in self.connections:
            if connection.waits_longer_than(self._limits.idle, self._limits.transfer):
                connection.abort()

    def _give_memory_back(self) -> None:
        """Once many connections have been closed."""
        now = asyncio.get_running_loop().time()
        if self._peak - len(self.connections) >= _MANY_CLOSED and now - self._gave_back_at >= self._limits.give_back:
            self._peak, self._gave_back_at = len(self.connections), now
            give_back_memory(0)


def _descriptors() -> int:
    """How many connections the process may have, by the limit of its open files."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return CONNECTIONS.most
    return max(files - _OTHER_DESCRIPTORS, _FEWEST_CONNECTIONS)


def listen(address: str, port: int, flags: str = "--address and --port") -> socket.socket:
    """A listening TCP socket; port 0 takes a free one. Raises UsageError that names ``flags``.

    Its connections have Nagle's algorithm off (40 ms an answer), which asyncio does only for a socket with a named protocol.
    """
    try:
        family, *_, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        is_dual = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        listener = socket.create_server(where, family=family, backlog=_BACKLOG, dualstack_ipv6=is_dual)
    except OSError as error:
        # The text of ``create_server`` repeats the address.
        why = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        raise UsageError(f"cannot listen on {address} port {port}: {why}; see {flags}") from error
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def load_tls(files: TlsFiles) -> FollowedContext:
    """Certificates for new connections, read again when the files change, as a renewed Secret does.

    Raises UsageError, which names the file that is wrong.
    """
    return FollowedContext(partial(_read_tls, files), [*map(Path, (files.certificate, files.key, files.client_ca))])


def _read_tls(files: TlsFiles) -> ssl.SSLContext:
    """A caller need not show a certificate (a probe has none), but one that it shows must be of our authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.verify_mode = ssl.CERT_OPTIONAL
    try:
        context.load_cert_chain(files.certificate, files.key)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"--tls-cert-file {files.certificate} and --tls-private-key-file {files.key} are no pair: {error}"
        ) from error
    try:
        context.load_verify_locations(files.client_ca)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"--client-ca-file {files.client_ca} holds no certificates: {error}") from error
    return context
