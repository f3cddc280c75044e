"""Promises of the extender's HTTP edge, to the byte: real sockets, real TLS, clients that do not behave, answers without an end."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trustme

from clusters.api.connection import TransportError
from gpushare.bounds import Bound
from gpushare.cli.settings import TlsFiles
from gpushare.errors import UsageError
from gpushare.serving.http_edge import Limits, load_tls
from tests.gpushare.serving.edges import Application, Client, client, edge, serving
from tests.servers import Caller, until


@pytest.mark.parametrize(
    ("parts", "body"),
    [
        (
            [bytes([byte]) for byte in b"POST /a?x=1 HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc"],
            b"POST /a 3",
        ),
        (
            [b"POST /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"],
            b"POST /a 5",
        ),
    ],
    ids=["a byte at a time", "in chunks"],
)
async def test_a_request_in_parts_is_one_request(parts: list[bytes], body: bytes) -> None:
    """A request may come in many packets, and its body in chunks, as curl sends one of unknown length."""
    async with edge(Application()) as url, client(url) as one:
        await one.send(*parts)

        assert (await one.answer())[2] == body


async def test_whoever_waits_for_leave_to_send_gets_it() -> None:
    """A client that waits for leave to send gets it, as curl asks before a body of more than a kilobyte."""
    async with edge(Application()) as url, client(url) as one:
        await one.send(b"POST /a HTTP/1.1\r\nExpect: 100-continue\r\ncontent-length: 3\r\n\r\n")
        assert await one.answer() == (100, {}, b"")
        await one.send(b"abc")
        assert (await one.answer())[2] == b"POST /a 3"


@pytest.mark.parametrize(
    ("text", "path", "query"),
    [
        (b"/a%2Fb%20c", "/a/b c", ""),
        (b"/a?q=x%20y&b", "/a", "q=x%20y&b"),
        (b"/a?", "/a", ""),
        (b"http://host:1/a?b", "/a", "b"),
        (b"http://host", "/", ""),
        (b"/%ff", "/\ufffd", ""),
        (b"*", "*", ""),
        (b"//a", "//a", ""),
    ],
)
async def test_the_path_and_the_query_are_what_is_meant(text: bytes, path: str, query: str) -> None:
    """The path is unescaped and without the host, which a proxy's form names before it; the query is as it was sent."""
    async with serving() as served, client(served.url) as one:
        await one.send(b"OPTIONS " + text + b" HTTP/1.1\r\n\r\n")
        await one.answer()

    assert (served.application.came[0].path, served.application.came[0].query) == (path, query)


@pytest.mark.parametrize(
    ("text", "is_kept"),
    [
        (b"GET /a HTTP/1.1\r\n\r\n", True),
        (b"GET /a HTTP/1.1\r\nconnection: close\r\n\r\n", False),
        (b"GET /a HTTP/1.0\r\n\r\n", False),
        (b"GET /a HTTP/1.1\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n", False),
    ],
)
async def test_a_connection_is_kept_as_the_client_wants_it(text: bytes, is_kept: bool) -> None:
    """A client that wants another protocol gets an answer in this one; nothing behind a closing request is read."""
    async with serving() as served, client(served.url) as one:
        await one.send(text + b"GET /b HTTP/1.1\r\n\r\n")
        status, headers, body = await one.answer()

        assert (status, body, headers.get("connection")) == (200, b"GET /a 0", None if is_kept else "close")
        if is_kept:
            assert (await one.answer())[2] == b"GET /b 0"
        else:
            assert await one.is_closed()
            assert [request.path for request in served.application.came] == ["/a"]


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", 400),
        (b"nonsense\r\n\r\n", 400),
        (b"GET /a HTTP/1.1\r\ncontent-length: x\r\n\r\n", 400),
        (b"POST /a HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", 431),
        (b"GET /a HTTP/1.1\r\n" + b"x: " + b"y" * 70_000 + b"\r\n\r\n", 431),
        (b"GET /a HTTP/1.1\r\n" + b"x: y\r\n" * 40_000 + b"\r\n", 431),
    ],
)
async def test_what_is_no_request_is_answered_and_the_connection_ends(text: bytes, status: int) -> None:
    """A text that is no request is answered after the request before it, and never reaches the application."""
    async with serving() as served, client(served.url) as one:
        await one.send(b"GET /before HTTP/1.1\r\n\r\n" + text)

        assert (await one.answer())[2] == b"GET /before 0"
        assert (await one.answer())[:2][0] == status
        assert [request.path for request in served.application.came] == ["/before"]


@pytest.mark.parametrize(
    "begin",
    [
        b"GET /a HTTP/1.1\r\nx: ",
        b"GET /a HTTP/1.1\r\nx",
        b"GET /a HTTP/1.1\r\nhost: a\r\nx: y\r\nz: ",
        b"POST /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx: ",
        b"POST /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1;",
    ],
    ids=["value", "name", "later value", "trailer", "chunk extension"],
)
async def test_a_header_without_an_end_is_refused(begin: bytes) -> None:
    """A header without an end is refused with 431: the parser keeps it until its end has come, and nothing else counts it."""
    async with serving() as served, client(served.url) as one:
        with contextlib.suppress(ConnectionError):
            await one.send(begin, *[b"a" * 65_536] * 6)

        assert (await one.answer())[0] == 431
    assert served.application.came == []


async def test_an_interim_answer_does_not_overtake_an_answer() -> None:
    """A second request that expects 100 Continue gets none while the first one is under way."""
    async with serving() as served, client(served.url) as one:
        second = b"POST /b HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\n"
        await one.send(b"GET /slow HTTP/1.1\r\n\r\n" + second, b"x")
        await until(lambda: len(served.application.came) == 1)
        served.application.release.set()

        assert (await one.answer())[2] == b"at last"
        assert (await one.answer())[2] == b"POST /b 1"


@pytest.mark.parametrize("method", [b"POST", b"GET"])
async def test_a_body_that_no_scheduler_sends_is_refused(method: bytes) -> None:
    """It is refused with 413 while it is still on its way, and reaches no application, nor is one passed over without an end."""
    limits = Limits(largest_body=Bound("a body", 100_000, "bytes"))
    async with serving(limits) as served, client(served.url) as one:
        await one.send(method + b" /a HTTP/1.1\r\ncontent-length: 100000000\r\n\r\n", b"x" * 200_000)
        status, headers, _ = await one.answer()

    assert (status, headers["connection"], served.application.came) == (413, "close", [])


async def test_client_ahead_of_a_slow_answer_does_not_fill_memory() -> None:
    """While one request is worked on nothing more is read from that connection."""
    async with serving() as served, client(served.url) as one:
        await one.send(b"GET /slow HTTP/1.1\r\n\r\n")
        await until(lambda: bool(served.application.came))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await one.send(b"POST /b HTTP/1.1\r\ncontent-length: 90000000\r\n\r\n", b"x" * 90_000_000)
        served.application.release.set()
        assert (await one.answer())[2] == b"at last"


async def test_a_client_that_takes_no_answers_gets_no_more_of_them() -> None:
    """The requests of a client that takes no answers wait, and other clients are served in between."""
    async with serving() as served, client(served.url) as one, client(served.url) as other:
        await one.send(b"GET /large HTTP/1.1\r\n\r\n" * 3)
        await other.send(b"GET /b HTTP/1.1\r\n\r\n")
        assert (await other.answer())[2] == b"GET /b 0"
        assert sum(request.path == "/large" for request in served.application.came) == 1
        for _ in range(3):
            assert len((await one.answer())[2]) == 50_000_000


SOON = Limits(idle=0.1, transfer=0.1, shutdown=0.2, sweep=0.02)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"GET /a HT",
        b"POST /a HTTP/1.1\r\ncontent-length: 3\r\n\r\na",
        b"GET /large HTTP/1.1\r\n\r\n",
        b"x\r\n\r\n",
    ],
    ids=["says nothing", "head", "body", "does not read", "was refused and stays"],
)
async def test_an_idle_caller_does_not_keep_its_connection(text: bytes) -> None:
    """Half-open ones too: after its time it is closed."""
    async with edge(Application(), SOON) as url, client(url) as one:
        await one.send(text)
        await asyncio.sleep(0.3)
        async with asyncio.timeout(300):
            assert not (await one.reader.read()).endswith(b"never")


async def test_a_caller_that_waits_for_us_is_not_closed() -> None:
    """A bind takes as long as the API server takes."""
    async with serving(SOON) as served, client(served.url) as one:
        await one.send(b"GET /slow HTTP/1.1\r\n\r\n")
        await asyncio.sleep(0.4)
        served.application.release.set()
        assert (await one.answer())[2] == b"at last"


async def test_the_end_finishes_what_is_under_way() -> None:
    """A bind is answered, and a large answer that is being read; an idle connection is closed, a new one refused."""
    async with (
        serving(Limits(shutdown=1000)) as served,
        client(served.url) as idle,
        client(served.url) as one,
        client(served.url) as reads,
    ):
        await reads.send(b"GET /large HTTP/1.1\r\n\r\n")
        head = await reads.reader.readuntil(b"\r\n\r\n")
        await one.send(b"GET /slow HTTP/1.1\r\n\r\n")
        await until(lambda: len(served.application.came) == 2)
        stopping = asyncio.create_task(served.edge.stop())
        # Its connection was to be kept when its answer began.
        assert (b"connection: close" in head, len(await reads.reader.read())) == (False, 50_000_000)
        assert await idle.is_closed()
        with pytest.raises(ConnectionError):
            async with client(served.url):
                pass
        assert not stopping.done()
        served.application.release.set()
        _, headers, body = await one.answer()
        await stopping

    assert (headers["connection"], body) == ("close", b"at last")


async def test_the_end_does_not_wait_for_ever() -> None:
    """The end of the server does not wait for ever for an answer that never comes or is never read."""
    application = Application()
    async with edge(application, SOON) as url, client(url) as one, client(url) as other:
        await one.send(b"GET /slow HTTP/1.1\r\n\r\n")
        await other.send(b"GET /large HTTP/1.1\r\n\r\n")
        await until(lambda: len(application.came) == 2)


# TLS


@dataclass
class Authority:
    """Certificates of one authority in a folder."""

    folder: Path
    ca: trustme.CA = field(default_factory=trustme.CA)

    def files(self, name: str = "127.0.0.1") -> TlsFiles:
        """As the flags name them."""
        found = TlsFiles(*(str(self.folder / name) for name in ("tls.crt", "tls.key", "ca.crt")))
        certificate = self.ca.issue_cert(name)
        certificate.private_key_pem.write_to_path(found.key)
        Path(found.certificate).write_bytes(b"".join(part.bytes() for part in certificate.cert_chain_pems))
        self.ca.cert_pem.write_to_path(found.client_ca)
        return found

    def caller(self, known: trustme.CA | None = None) -> ssl.SSLContext:
        """A client that trusts this authority; ``known`` issues its certificate."""
        context = ssl.create_default_context(cadata=self.ca.cert_pem.bytes().decode())
        if known is not None:
            known.issue_cert("kube-scheduler@example").configure_cert(context)
        return context


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """One of the test's own."""
    return Authority(tmp_path)


async def get(url: str, context: ssl.SSLContext) -> str:
    """The answer to a client with these certificates."""
    async with Caller(url, tls=context) as http:
        return (await http.get("/a")).text


@pytest.mark.promise("EXT-033")
async def test_certificates_are_renewed_without_a_restart(authority: Authority) -> None:
    """New connections get the new ones, and callers of the new authority; what is half written is not taken."""
    files = authority.files()
    async with edge(Application(), tls=load_tls(files)) as url:
        assert await get(url, authority.caller(authority.ca)) == "GET /a 0"
        Path(files.key).write_text("half a key")
        assert await get(url, authority.caller(authority.ca)) == "GET /a 0"
        second = Authority(authority.folder)
        second.files()
        assert await get(url, second.caller(second.ca)) == "GET /a 0"
        with pytest.raises(TransportError):
            await get(url, authority.caller(authority.ca))


@pytest.mark.parametrize("name", ["certificate", "key", "client_ca"])
@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_file_that_is_not_what_it_should_be_is_a_usage_error(
    authority: Authority, name: str, content: str | None
) -> None:
    """A file that is not what it should be is a usage error that names the file."""
    files = authority.files()
    path = Path(getattr(files, name))
    path.unlink()
    if content is not None:
        path.write_text(content)

    with pytest.raises(UsageError, match=str(path)):
        load_tls(files)


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
