"""Promises of answers without an end: each piece goes to all that listen, and none of them can make the server hold much."""

from __future__ import annotations

import asyncio

from gpushare.serving.http_edge import Limits
from tests.gpushare.serving.edges import Client, client, serving
from tests.servers import until

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\nx-more: 1\r\nconnection: close\r\n\r\n"


async def ask(one: Client, path: bytes = b"/endless") -> bytes:
    """Send a request; the head of its answer."""
    await one.send(b"GET %b HTTP/1.1\r\n\r\n" % path)
    return await one.reader.readuntil(b"\r\n\r\n")


async def test_each_piece_goes_to_all_that_listen() -> None:
    """In its order, without a length, until the server or the client ends it."""
    async with serving() as served, client(served.url) as one, client(served.url) as other:
        assert [await ask(one), await ask(other)] == [HEAD, HEAD]
        assert len(served.application.audience) == 2
        served.application.audience.send(b"second\n")
        served.application.audience.send(b"third\n")
        for each in (one, other):
            assert [await each.reader.readline() for _ in range(3)] == [b"first\n", b"second\n", b"third\n"]
        other.writer.close()
        await until(lambda: len(served.application.audience) == 1)
        served.application.audience.send(b"fourth\n")
        assert await one.reader.readline() == b"fourth\n"


async def test_requests_behind_an_endless_one_are_not_answered() -> None:
    """There is no place for an answer behind one that does not end; also if both come in one packet."""
    async with serving() as served, client(served.url) as one:
        await one.send(b"GET /endless HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\n")
        assert await one.reader.readuntil(b"first\n") == HEAD + b"first\n"
        await one.send(b"GET /c HTTP/1.1\r\n\r\n")
        served.application.audience.send(b"second\n")
        assert await one.reader.readline() == b"second\n"

    assert [request.path for request in served.application.came] == ["/endless"]


async def test_a_quiet_listener_is_not_idle() -> None:
    """The limit of idle connections is for those without a request; each sweep ends only them."""
    limits = Limits(idle=1, transfer=60, sweep=0.05)
    async with serving(limits) as served, client(served.url) as one, client(served.url) as idle:
        await ask(one)
        assert await idle.is_closed()
        assert len(served.application.audience) == 1
        served.application.audience.send(b"second\n")
        assert await one.reader.readuntil(b"second\n") == b"first\nsecond\n"


async def test_a_listener_that_does_not_read_misses_pieces() -> None:
    """The server holds one large piece for it at most, and no piece in part. It closes it if it takes too long."""
    piece = b"x" * 20_000_000 + b"\n"
    async with serving() as served, client(served.url) as one:
        await ask(one)
        for text in (piece, b"lost\n"):
            served.application.audience.send(text)
        rest = b"first\n" + piece
        assert await one.reader.readexactly(len(rest)) == rest
        await until(lambda: served.held == 0)
        served.application.audience.send(b"next\n")
        assert await one.reader.readline() == b"next\n"
    async with serving(Limits(transfer=0.2, sweep=0.02)) as served, client(served.url) as one:
        await ask(one)
        for _ in range(5):
            served.application.audience.send(piece)
        await asyncio.sleep(0)
        assert 0 < served.held <= len(piece)
        await until(lambda: not served.application.audience)
        assert served.held == 0


async def test_listeners_are_given_up_for_a_new_caller() -> None:
    """A scheduler finds a place although pages are open."""
    async with serving(Limits(connections=1)) as served, client(served.url) as one:
        await ask(one)
        async with client(served.url) as scheduler:
            await ask(scheduler, b"/b")
        await one.reader.readline()
        assert await one.is_closed()
        await until(lambda: not served.application.audience)


async def test_the_end_of_the_server_ends_them() -> None:
    """At once: a client that listens does not hold up a shutdown."""
    async with serving(Limits(shutdown=600)) as served, client(served.url) as one:
        await ask(one)
        await asyncio.wait_for(served.edge.stop(), 300)
        assert await one.reader.read() == b"first\n"
        assert len(served.application.audience) == 0
