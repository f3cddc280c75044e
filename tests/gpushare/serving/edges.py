"""The HTTP server on a free port of loopback, an application for it, and a client that sends byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, field

from gpushare.bounds import Bound
from gpushare.serving import http_connection
from gpushare.serving.http_connection import Answer, HttpRequest
from gpushare.serving.http_edge import HttpEdge, Limits, listen
from gpushare.serving.open_connections import Audience
from tests.servers import until

_USUAL = Limits()


@contextlib.asynccontextmanager
async def running(
    application: http_connection.Application, limits: Limits = _USUAL, tls: ssl.SSLContext | None = None
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
    application: http_connection.Application, limits: Limits = _USUAL, tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """Its URL."""
    async with running(application, limits, tls) as (_, url):
        yield url


@dataclass
class Application:
    """Answers each request with what it was; ``/slow`` only once it is released, ``/endless`` for ever. Remembers what came."""

    came: list[HttpRequest] = field(default_factory=list)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    audience: Audience = field(default_factory=lambda: Audience(Bound("the listeners", 2, "listeners")))

    def __call__(self, request: HttpRequest) -> Answer | Awaitable[Answer]:
        self.came.append(request)
        if request.path == "/slow":
            return self._slow()
        if request.path == "/endless":
            return Answer(200, body=b"first\n", headers=b"x-more: 1\r\n", audience=self.audience)
        if request.path == "/large":
            return Answer(200, body=b"x" * 50_000_000)
        return Answer(200, body=f"{request.method} {request.path} {len(request.body)}".encode())

    async def _slow(self) -> Answer:
        await self.release.wait()
        return Answer(200, body=b"at last")


class Client:
    """A connection, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, *parts: bytes) -> None:
        """Each as a packet of its own."""
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()
            await asyncio.sleep(0)

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Status, headers, and the body by its length."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): text for name, _, text in (line.partition(": ") for line in lines)}
        return int(first.split()[1]), headers, await self.reader.readexactly(int(headers.get("content-length", 0)))

    async def is_closed(self) -> bool:
        """Has the server ended it?"""
        with contextlib.suppress(ConnectionError):
            return await self.reader.read() == b""
        return True


@contextlib.asynccontextmanager
async def client(url: str, tls: ssl.SSLContext | None = None) -> AsyncIterator[Client]:
    """One connection to the edge."""
    host, _, port = url.partition("://")[2].partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=tls)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()


@dataclass
class Served:
    """A server, the application that it serves, and its address."""

    edge: HttpEdge
    application: Application
    url: str

    @property
    def held(self) -> int:
        """Bytes that clients make it hold."""
        return self.edge.connections.held

    async def holds(self, amount: int) -> None:
        """Wait until it is this many."""
        await until(lambda: self.held == amount)


@contextlib.asynccontextmanager
async def serving(limits: Limits = _USUAL, tls: ssl.SSLContext | None = None) -> AsyncIterator[Served]:
    """On a free port of loopback."""
    application = Application()
    async with running(application, limits, tls) as (server, url):
        try:
            yield Served(server, application, url)
        finally:
            application.release.set()
