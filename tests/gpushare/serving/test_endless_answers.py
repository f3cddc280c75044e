"""Promises of answers without an end: each piece goes to all that listen, and none of them can make the server hold much."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from gpushare.bounds import Bound
from gpushare.serving.audience import Audience
from gpushare.serving.http_connection import Answer, HttpRequest
from gpushare.serving.http_edge import HttpEdge, Limits
from tests.gpushare.serving.edges import running
from tests.gpushare.serving.test_http_edge import Client, client
from tests.servers import until

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\nx-more: 1\r\nconnection: close\r\n\r\n"
USUAL = Limits()


@dataclass
class Broadcast:
    """An application whose one path never ends; it remembers which requests came."""

    audience: Audience = field(default_factory=lambda: Audience(Bound("the listeners", 2, "listeners")))
    came: list[HttpRequest] = field(default_factory=list)

    def __call__(self, request: HttpRequest) -> Answer:
        self.came.append(request)
        if request.path != "/endless":
            return Answer(200, body=b"short")
        return Answer(200, body=b"first\n", headers=b"x-more: 1\r\n", audience=self.audience)


@contextlib.asynccontextmanager
async def serving(limits: Limits = USUAL) -> AsyncIterator[tuple[Broadcast, HttpEdge, str]]:
    """On a free port of loopback."""
    application = Broadcast()
    async with running(application, limits) as (server, url):
        yield application, server, url


async def ask(one: Client, path: bytes = b"/endless", method: bytes = b"GET") -> bytes:
    """Send a request; the head of its answer."""
    await one.send(b"%b %b HTTP/1.1\r\n\r\n" % (method, path))
    return await one.reader.readuntil(b"\r\n\r\n")


async def test_each_piece_goes_to_all_that_listen() -> None:
    """In its order, without a length, until the server or the client ends it."""
    async with serving() as (application, _, url), client(url) as one, client(url) as other:
        assert [await ask(one), await ask(other)] == [HEAD, HEAD]
        assert len(application.audience) == 2
        application.audience.send(b"second\n")
        application.audience.send(b"third\n")
        for each in (one, other):
            assert [await each.reader.readline() for _ in range(3)] == [b"first\n", b"second\n", b"third\n"]
        other.writer.close()
        await until(lambda: len(application.audience) == 1)
        application.audience.send(b"fourth\n")
        assert await one.reader.readline() == b"fourth\n"


async def test_requests_behind_an_endless_one_are_not_answered() -> None:
    """There is no place for an answer behind one that does not end; also if both come in one packet."""
    async with serving() as (application, _, url), client(url) as one:
        await one.send(b"GET /endless HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\n")
        assert await one.reader.readuntil(b"first\n") == HEAD + b"first\n"
        await one.send(b"GET /c HTTP/1.1\r\n\r\n")
        application.audience.send(b"second\n")
        assert await one.reader.readline() == b"second\n"

    assert [request.path for request in application.came] == ["/endless"]


async def test_head_of_an_endless_answer_ends() -> None:
    """It joins nothing, and the connection stays usable."""
    async with serving() as (application, _, url), client(url) as one:
        assert b"x-more: 1\r\n" in await ask(one, method=b"HEAD")
        assert len(application.audience) == 0
        await ask(one, b"/b")
        assert await one.reader.readexactly(5) == b"short"


async def test_a_quiet_listener_is_not_idle() -> None:
    """The limit of idle connections is for those without a request; each sweep ends only them."""
    limits = Limits(idle=1, transfer=60, sweep=0.05)
    async with serving(limits) as (application, _, url), client(url) as one, client(url) as idle:
        await ask(one)
        assert await idle.is_closed()
        assert len(application.audience) == 1
        application.audience.send(b"second\n")
        assert await one.reader.readuntil(b"second\n") == b"first\nsecond\n"


async def test_a_listener_that_does_not_read_misses_pieces() -> None:
    """The server holds one large piece for it at most, and closes it if it takes too long."""
    piece = b"x" * 20_000_000
    async with serving(Limits(transfer=0.2, sweep=0.02)) as (application, edge, url), client(url) as one:
        await ask(one)
        for _ in range(5):
            application.audience.send(piece)
        await asyncio.sleep(0)
        assert 0 < edge.connections.held <= len(piece)
        await until(lambda: not application.audience)
        assert edge.connections.held == 0


async def test_a_listener_that_reads_again_gets_the_next_piece() -> None:
    """Pieces between are lost, and no piece in part."""
    async with serving() as (application, edge, url), client(url) as one:
        await ask(one)
        application.audience.send(b"x" * 20_000_000 + b"\n")
        application.audience.send(b"lost\n")
        rest = b"first\n" + b"x" * 20_000_000 + b"\n"
        assert await one.reader.readexactly(len(rest)) == rest
        await until(lambda: edge.connections.held == 0)
        application.audience.send(b"next\n")
        assert await one.reader.readline() == b"next\n"


async def test_listeners_are_given_up_for_a_new_caller() -> None:
    """A scheduler finds a place although pages are open."""
    async with serving(Limits(connections=1)) as (application, _, url), client(url) as one:
        await ask(one)
        async with client(url) as scheduler:
            await ask(scheduler, b"/b")
        await one.reader.readline()
        assert await one.is_closed()
        await until(lambda: not application.audience)


async def test_the_end_of_the_server_ends_them() -> None:
    """At once: a client that listens does not hold up a shutdown."""
    async with serving(Limits(shutdown=600)) as (application, server, url), client(url) as one:
        await ask(one)
        await asyncio.wait_for(server.stop(), 300)
        assert await one.reader.read() == b"first\n"
        assert len(application.audience) == 0
