"""Promises of the HTTP server under pressure: uploads that end early, bodies, answers and connections without number."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import select
import socket
import subprocess
import sys
import tracemalloc
import weakref
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from gpushare.bounds import Bound
from gpushare.serving.http_connection import Answer, HttpConnection
from gpushare.serving.http_edge import Limits, load_tls
from gpushare.serving.open_connections import Connections
from tests.gpushare.serving.edges import Client, client, serving
from tests.gpushare.serving.test_http_edge import Authority
from tests.servers import until

MB = 1_000_000


def budget(most: int) -> Limits:
    """So many bytes of all connections together."""
    return Limits(bytes_in_flight=Bound("all bodies", most, "bytes"), shutdown=0.2)


async def upload(one: Client, announced: int, sent: int) -> None:
    """A part of a body."""
    await one.send(b"POST /a HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % announced, b"x" * sent)


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Only objects that are referred to stay in memory: Python's collector of cycles does not run."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def connections_alive() -> list[HttpConnection]:
    """The objects of connections, also those that an earlier test has left."""
    return [one for one in gc.get_objects() if isinstance(one, HttpConnection)]


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("is_secured", [False, True], ids=["plain", "TLS"])
async def test_an_aborted_upload_is_freed(tmp_path: Path, is_secured: bool) -> None:
    """An aborted upload is freed with its connection, and not when Python's collector runs."""
    authority = Authority(tmp_path)
    before = weakref.WeakSet(connections_alive())

    def is_alive() -> bool:
        return any(one not in before for one in connections_alive())

    async with serving(tls=load_tls(authority.files()) if is_secured else None) as served:
        host, port = "127.0.0.1", int(served.url.rpartition(":")[2])
        for _ in range(3):
            context = authority.caller(authority.ca) if is_secured else None
            _, writer = await asyncio.open_connection(host, port, ssl=context)
            writer.write(b"POST /a HTTP/1.1\r\ncontent-length: 9000000\r\n\r\n" + b"x" * 5_000_000)
            await until(is_alive)
            writer.transport.abort()
            await until(lambda: not is_alive())


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("text", [b"", b"GET / HTTP/1.1\r\n\r\n"], ids=["silence", "no TLS"])
async def test_a_failed_handshake_is_freed(tmp_path: Path, text: bytes) -> None:
    """A handshake that fails is freed with its connection, and not when Python's collector runs."""
    before = weakref.WeakSet(connections_alive())
    async with serving(tls=load_tls(Authority(tmp_path).files())) as served:
        for _ in range(3):
            _, writer = await asyncio.open_connection("127.0.0.1", int(served.url.rpartition(":")[2]))
            await until(lambda: any(one not in before for one in connections_alive()))
            writer.write(text)
            writer.close()
            await until(lambda: all(one in before for one in connections_alive()))


@pytest.mark.usefixtures("uncollected")
async def test_a_swept_upload_is_freed() -> None:
    """The sweep that closes slow connections refers to none of them between two turns."""
    before = weakref.WeakSet(connections_alive())
    async with serving(Limits(transfer=0, sweep=0.01)) as served, client(served.url) as one:
        one.writer.write(b"POST /a HTTP/1.1\r\ncontent-length: 9000000\r\n\r\n" + b"x" * 100_000)
        assert await one.is_closed()
        await until(lambda: all(connection in before for connection in connections_alive()))


@pytest.mark.usefixtures("uncollected")
async def test_a_refused_upload_is_freed() -> None:
    """While its connection is still open."""
    async with serving() as served, client(served.url) as one:
        await upload(one, 9_000_000, 5_000_000)
        await served.holds(5_000_000)
        await one.send(b"x" * 4_000_000, b"no request\r\n\r\n")
        assert [(await one.answer())[0] for _ in range(2)] == [200, 400]
        assert served.held == 0


async def test_uploads_share_one_budget() -> None:
    """The upload that takes longest is refused with 503 when there is no room for another, which is answered."""
    async with (
        serving(budget(10 * MB)) as served,
        client(served.url) as first,
        client(served.url) as second,
        client(served.url) as third,
    ):
        await upload(first, 9 * MB, 4 * MB)
        await served.holds(4 * MB)
        await upload(second, 9 * MB, 4 * MB)
        await served.holds(8 * MB)
        await upload(third, 5 * MB, 5 * MB)
        assert (await third.answer())[2] == b"POST /a 5000000"
        status, headers, _ = await first.answer()

        assert (status, headers["retry-after"], headers["connection"]) == (503, "1", "close")
        assert served.held == 4 * MB
        await second.send(b"x" * 5 * MB)
        assert (await second.answer())[2] == b"POST /a 9000000"
        assert served.held == 0


async def test_a_body_costs_what_is_counted() -> None:
    """A body in chunks of one byte takes the memory of its bytes, each of which is counted."""
    async with serving() as served, client(served.url) as one:
        await one.send(b"POST /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n")
        tracemalloc.start()
        await one.send(b"1\r\nx\r\n" * 60_000)
        await served.holds(60_000)
        taken, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    assert taken < 10 * 60_000


async def test_a_head_is_counted_from_its_first_byte() -> None:
    """A half-sent header is held by the parser, and counts as a body does."""
    async with serving() as served, client(served.url) as one:
        await one.send(b"GET /a HTTP/1.1\r\nx: ")
        await served.holds(20)
        await one.send(b"y" * 1000)
        await served.holds(1020)


async def test_requests_ahead_of_answers_are_few() -> None:
    """Requests that are read before the first is answered keep their order, and are bounded: each takes more than its bytes."""
    async with serving() as served, client(served.url) as one:
        await one.send(b"GET /slow HTTP/1.1\r\n\r\n" + b"GET /b HTTP/1.1\r\n\r\n" * 1000)
        await until(lambda: bool(served.application.came))
        assert [request.path for request in served.application.came] == ["/slow"]
        served.application.release.set()
        answers = [await one.answer() for _ in range(17)]

    assert [status for status, _, _ in answers] == [200] * 16 + [503]
    assert [body for _, _, body in answers[:16]] == [b"at last"] + [b"GET /b 0"] * 15


@pytest.mark.parametrize(
    "text", [b"1\r\nx\r\n" * 1000, b"1;a=b\r\nx\r\n" * 1000, b"x"], ids=["chunks", "extensions", "half a line"]
)
def test_work_does_not_grow_with_neighbours(text: bytes) -> None:
    """Bytes of one connection take as many calls beside 300 silent ones as beside none."""

    def calls(neighbours: int) -> int:
        connections = Connections(Bound("all bodies", MB, "bytes"))

        def connect() -> HttpConnection:
            connection = HttpConnection(lambda _: Answer(200), connections, is_tls=False, now=lambda: 0.0)
            connection.connection_made(Mock(spec=asyncio.Transport, is_closing=lambda: False))
            return connection

        one, *_ = [connect() for _ in range(1 + neighbours)]
        one.data_received(b"POST /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n")
        counted: Counter[str] = Counter()
        sys.setprofile(lambda frame, event, _: counted.update([event]))
        one.data_received(text)
        sys.setprofile(None)
        return counted["call"]

    assert calls(300) == calls(0)


async def test_a_silent_caller_over_tls_takes_little(tmp_path: Path) -> None:
    """A connection over TLS takes at most 64 KiB of Python's memory before its first byte."""
    authority = Authority(tmp_path)
    async with serving(tls=load_tls(authority.files())) as served, contextlib.AsyncExitStack() as stack:
        tracemalloc.start()
        for _ in range(20):
            await stack.enter_async_context(client(served.url))
        await until(lambda: len(served.edge.connections) == 20)
        taken, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    # The client of the test takes memory too.
    assert taken < 20 * 64 * 1024


async def test_work_over_tls_counts_as_work(tmp_path: Path) -> None:
    """A caller over TLS that waits for its answer is not taken for one that does not read."""
    authority = Authority(tmp_path)
    async with serving(tls=load_tls(authority.files())) as served:
        port = int(served.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=authority.caller(authority.ca))
        for count, path in enumerate((b"/a", b"/slow"), start=1):
            writer.write(b"GET %s HTTP/1.1\r\n\r\n" % path)
            await until(lambda count=count: len(served.application.came) == count)
        assert [one.is_busy for one in served.edge.connections] == [True]
        served.application.release.set()
        assert b"at last" in await reader.readuntil(b"at last")
        writer.close()


@pytest.mark.parametrize("is_secured", [False, True], ids=["plain", "TLS"])
async def test_answers_that_are_not_taken_are_bounded(tmp_path: Path, is_secured: bool) -> None:
    """50 MB each: the client that has not taken its answer for longest is left, and the next one is served."""
    authority = Authority(tmp_path)
    tls = load_tls(authority.files()) if is_secured else None
    async with serving(budget(120 * MB), tls) as served, contextlib.AsyncExitStack() as stack:
        clients = []
        for number in range(1, 4):
            context = authority.caller(authority.ca) if is_secured else None
            clients.append(await stack.enter_async_context(client(served.url, context)))
            await clients[-1].send(b"GET /large HTTP/1.1\r\n\r\n")
            await until(lambda number=number: len(served.application.came) == number)
            assert min(number, 2) * 50 * MB <= served.held < 120 * MB
        assert len((await clients[2].answer())[2]) == 50 * MB
        await until(lambda: 50 * MB <= served.held < 60 * MB)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await clients[0].answer()
        assert len((await clients[1].answer())[2]) == 50 * MB
        await served.holds(0)


async def test_a_last_long_answer_over_tls_is_whole(tmp_path: Path) -> None:
    """A caller over TLS that wants its connection closed gets all of a long answer."""
    authority = Authority(tmp_path)
    async with (
        serving(tls=load_tls(authority.files())) as served,
        client(served.url, authority.caller(authority.ca)) as one,
    ):
        await one.send(b"GET /large HTTP/1.1\r\nconnection: close\r\n\r\n")
        await until(lambda: bool(served.application.came))
        assert len((await one.answer())[2]) == 50 * MB
        assert await one.is_closed()


async def test_a_body_where_none_belongs_is_not_kept() -> None:
    """A GET may have any."""
    async with serving() as served, client(served.url) as one:
        await one.send(b"GET /slow HTTP/1.1\r\ncontent-length: 3000000\r\n\r\n", b"x" * 3 * MB)
        await until(lambda: bool(served.application.came))
        assert served.held == 0
        served.application.release.set()
        assert (await one.answer())[0] == 200


async def test_the_longest_idle_makes_room() -> None:
    """The connection that is idle for longest makes room for a new one. A connection that waits for its answer stays.

    If all wait for their answers, a new connection is closed.
    """
    async with serving(Limits(connections=3)) as served, contextlib.AsyncExitStack() as stack:
        busy, idle, used = [await stack.enter_async_context(client(served.url)) for _ in range(3)]
        await busy.send(b"GET /slow HTTP/1.1\r\n\r\n")
        await until(lambda: bool(served.application.came))
        await idle.send(b"GET /a HTTP/1.1\r\n\r\n")
        await idle.answer()
        await used.send(b"GET /a HTTP/1.1\r\n\r\n")
        await used.answer()
        new = await stack.enter_async_context(client(served.url))
        await new.send(b"GET /new HTTP/1.1\r\n\r\n")
        assert (await new.answer())[2] == b"GET /new 0"
        assert await idle.is_closed()
        await used.send(b"GET /used HTTP/1.1\r\n\r\n")
        assert (await used.answer())[2] == b"GET /used 0"
        for one in (used, new):
            await one.send(b"GET /slow HTTP/1.1\r\n\r\n")
        await until(lambda: sum(request.path == "/slow" for request in served.application.came) == 3)
        assert await (await stack.enter_async_context(client(served.url))).is_closed()
        served.application.release.set()
        assert (await busy.answer())[2] == b"at last"


async def test_strangers_make_room_first(tmp_path: Path) -> None:
    """Connections without a certificate, and handshakes that never end, before a caller that is known."""
    authority = Authority(tmp_path)
    async with serving(Limits(connections=4), load_tls(authority.files())) as served:
        port = int(served.url.rpartition(":")[2])
        reader, known = await asyncio.open_connection("127.0.0.1", port, ssl=authority.caller(authority.ca))
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(10)]
        _, anonymous = await asyncio.open_connection("127.0.0.1", port, ssl=authority.caller())
        more = [await asyncio.open_connection("127.0.0.1", port) for _ in range(10)]
        assert await silent[0][0].read() == b""
        known.write(b"GET /a HTTP/1.1\r\n\r\n")
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        for writer in (known, anonymous, *(writer for _, writer in silent + more)):
            writer.close()


# A server by its arguments: the files that it may open, and those that the rest of its program has opened.
WITH_FILES = """
import asyncio, logging, os, resource, sys
most, own = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
from gpushare import logs
from gpushare.serving import http_edge
from gpushare.serving.http_connection import Answer
files = [os.dup(0) for _ in range(own)]
async def main():
    listener = http_edge.listen("127.0.0.1", 0)
    await http_edge.HttpEdge(lambda request: Answer(200), listener).start()
    print(listener.getsockname()[1], flush=True)
    await asyncio.Event().wait()
logs.configure(logging.INFO)
asyncio.run(main())
"""


def open_of_two_hundred(files: int, own: int) -> tuple[int, str]:
    """How many connections of 200 a server with files holds, the last of which has an answer; and its log."""
    argv = [sys.executable, "-c", WITH_FILES, str(files), str(own)]
    with (
        subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program,
        contextlib.ExitStack() as stack,
    ):
        stack.callback(program.kill)
        assert program.stdout is not None
        where = "127.0.0.1", int(program.stdout.readline())
        clients = [stack.enter_context(socket.create_connection(where, timeout=300)) for _ in range(200)]
        clients[-1].sendall(b"GET /a HTTP/1.1\r\n\r\n")
        assert clients[-1].recv(15) == b"HTTP/1.1 200 OK"
        closed, _, _ = select.select(clients[:-1], [], [], 0)
        program.terminate()
        _, errors = program.communicate(timeout=300)
    return len(clients) - len(closed), errors


def test_without_a_free_file_it_goes_on() -> None:
    """The longest idle connections make room, and the log has one line of it and no traceback."""
    _, errors = open_of_two_hundred(48, 32)

    assert errors.count("\n") == errors.count("cannot accept a connection open=") == 1


def test_connections_leave_files_to_the_rest_of_the_program() -> None:
    """A process with 256 files has room for 128 connections, and then closes the longest idle ones."""
    assert open_of_two_hundred(256, 0) == (128, "")
