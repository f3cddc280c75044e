"""Promises of the connections: the differences to aiohttp, and logins."""

from __future__ import annotations

import asyncio

import pytest

from gpushare.kube import http_pool
from gpushare.kube.api_errors import UnauthorizedError, UnreachableError
from gpushare.kube.client import ApiClient
from tests.gpushare.kube.scripted_api import Answer, ScriptedApi, Serve, answer_with, client_of, listen
from tests.passing_time import pass_time_until
from tests.servers import anonymous

PATH = "/api/v1/namespaces/n/leases/l"
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def by_hand(serve: Serve) -> ScriptedApi:
    """Serves each connection as a test decides, over HTTP or not."""
    api = ScriptedApi(lambda call: Answer())
    api.serve = serve
    return api


@pytest.mark.parametrize(("method", "times"), [("PUT", 1), ("DELETE", 1), ("PATCH", 1), ("POST", 1), ("GET", 2)])
async def test_a_write_is_sent_once_whatever_becomes_of_its_connection(method: str, times: int) -> None:
    """Sent again, it would find what it has done itself; a read may come again on a new connection."""
    heard: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            heard.append(head.split(" ")[0])
            if len(heard) == 2:
                return
            writer.write(EMPTY)

    async with listen(by_hand(serve)) as url, client_of(url) as client:
        await client.request("GET", PATH)
        if method == "GET":
            assert await client.request(method, PATH) == b"{}"
        else:
            with pytest.raises(UnreachableError) as caught:
                await client.request(method, PATH)
            assert caught.value.may_have_happened

    assert heard[1:] == [method] * times


async def test_many_parallel_requests_share_few_kept_connections() -> None:
    """However many pods are bound together; the next burst makes no handshake."""
    connections: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(EMPTY)

    async with listen(by_hand(serve)) as url, client_of(url) as client:
        opened = []
        for _ in range(2):
            await asyncio.gather(*(client.list_pods() for _ in range(100)))
            opened.append(len(connections))

    assert opened == [http_pool.CONNECTIONS] * 2


async def test_what_a_server_says_unasked_is_no_answer() -> None:
    """A gateway answers 408 on a connection that was idle: a bind would count as refused, and still be done."""
    heard: list[str] = []
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            heard.append((await reader.readuntil(b"\r\n\r\n")).decode().split(" ")[0])
            writers.append(writer)
            if len(heard) == 2:
                writers[0].write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 2\r\n\r\nno")
            writer.write(EMPTY)

    async with listen(by_hand(serve)) as url, client_of(url) as client, client_of(url) as other:
        await client.request("GET", PATH)
        # Its answer is sent after the 408, so both have arrived.
        await other.request("GET", PATH)
        with pytest.raises(UnreachableError) as caught:
            await client.request("POST", PATH)
        assert (caught.value.may_have_happened, heard) == (False, ["GET", "GET"])
        assert await client.request("GET", PATH) == b"{}"


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_continue_without_an_answer_ends_after_the_timeout(method: str) -> None:
    """An informational answer does not extend the limit."""
    arrived = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        arrived.set()
        await reader.read()

    async with listen(by_hand(serve)) as url, client_of(url) as client:
        request = asyncio.create_task(client.request(method, PATH))
        await arrived.wait()
        await pass_time_until(request.done)
        with pytest.raises(UnreachableError) as caught:
            await request

    assert caught.value.may_have_happened


@pytest.mark.filterwarnings("ignore:Sending a large body")
async def test_a_server_that_does_not_read_keeps_no_caller() -> None:
    """More than sockets hold: aiohttp waits for ever until all is sent."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(30)

    async with listen(by_hand(serve)) as url, client_of(url, timeout_seconds=0.1) as client:
        with pytest.raises(UnreachableError):
            await client.request("PATCH", PATH, body={"text": "x" * 20_000_000})


@pytest.mark.parametrize(
    ("url", "token"),
    [
        ("http://127.0.0.1:1", "a\nb"),
        ("http://a..b:1", ""),
        ("127.0.0.1:6443", ""),
        ("https://", ""),
        ("http://x:y@a:1", "sesame"),
        ("http://127.0.0.1:1", "nothing listens"),
    ],
)
async def test_unsendable_request_is_an_error_without_effects(url: str, token: str) -> None:
    """The error does not contain the token."""
    async with client_of(url, login=Tokens(token) if token else anonymous) as client:
        with pytest.raises(UnreachableError) as caught:
            await client.request("POST", PATH, body={})

    assert not caught.value.may_have_happened
    assert not token or token not in str(caught.value)


class Tokens:
    """Shows one token until that is refused, then the next; ``asked`` counts how often one was refused."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = [*tokens]
        self.asked = -1

    async def __call__(self) -> list[tuple[str, str]]:
        self.asked += 1
        return [("Authorization", f"Bearer {self.tokens[min(self.asked, len(self.tokens) - 1)]}")]


@pytest.mark.parametrize("tokens", [("old", "new"), ("old",)], ids=["a new one", "no other"])
async def test_requests_that_are_refused_together_log_in_once(tokens: tuple[str, ...]) -> None:
    """One of them renews a login that has run out: a plugin may ask a person, or take a second. Each is sent once more."""
    api, login = answer_with("new"), Tokens(*tokens)
    async with listen(api) as url, client_of(url, login=login) as client:
        found = await asyncio.gather(*(client.request("GET", PATH) for _ in range(20)), return_exceptions=True)

    assert {type(one) for one in found} == {bytes if "new" in tokens else UnauthorizedError}
    assert (login.asked, len(api.calls)) == (1, 40)


async def test_a_new_login_holds_no_connection() -> None:
    """The connection of the request that was refused ends before the login does, also of one that fails."""
    logins, ended = 0, asyncio.Event()

    async def fails() -> list[tuple[str, str]]:
        nonlocal logins
        logins += 1
        if logins == 1:
            return [("Authorization", "old")]
        await asyncio.wait_for(ended.wait(), 300)
        raise UnauthorizedError("no plugin")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        # A body with it would have freed the connection.
        writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\n")
        await reader.read()
        ended.set()

    async with listen(by_hand(serve)) as url, client_of(url, login=fails) as client:
        with pytest.raises(UnauthorizedError, match="no plugin"):
            await client.request("POST", PATH, body={})


async def test_a_chunk_that_is_none_ends_a_stream() -> None:
    """Though the server then sends nothing more and keeps the connection."""
    taken = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{"a":1}\n\r\n')
        await taken.wait()
        writer.write(b"no length\r\n")
        await reader.read()

    async def read(client: ApiClient) -> None:
        async with client.stream("/api/v1/pods", {"watch": "1"}, silence_seconds=0.2) as stream:
            assert await anext(stream) == b'{"a":1}'
            taken.set()
            await anext(stream)

    async with listen(by_hand(serve)) as url, client_of(url) as client:
        with pytest.raises(UnreachableError):
            await read(client)


async def test_an_abandoned_stream_ends_its_connection() -> None:
    """The server hears of it: it would send events for ever."""
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{"a":1}\n\r\n')
        assert await reader.read() == b""
        ended.set()

    async with listen(by_hand(serve)) as url, client_of(url) as client:
        async with client.stream("/api/v1/pods", {"watch": "1"}, silence_seconds=30) as stream:
            await anext(stream)
        await asyncio.wait_for(ended.wait(), 300)
