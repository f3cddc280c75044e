"""Promises of clusters.api.connection: whole answers, streams, credentials, and failures as one error."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from clusters.api import kubeconfig_file
from clusters.api.certificates import Authority
from clusters.api.connection import Connection, TransportError, decoded
from tests.servers import serve


class Recorder:
    """An ASGI application that notes what is asked, and answers the same each time, or what ``status`` makes of the request."""

    def __init__(
        self,
        status: int | Callable[[dict[bytes, bytes]], int] = 200,
        headers: Sequence[tuple[bytes, bytes]] = (),
        pieces: Sequence[bytes] = (),
    ) -> None:
        self._status, self._headers, self._pieces = status, list(headers), pieces
        self.asked: list[dict[str, Any]] = []

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        body = b""
        while (message := await receive()).get("more_body") or message.get("body"):
            body += message["body"]
            if not message.get("more_body"):
                break
        headers = dict(scope["headers"])
        self.asked.append({**scope, "headers": headers, "body": body})
        code = self._status if isinstance(self._status, int) else self._status(headers)
        await send({"type": "http.response.start", "status": code, "headers": self._headers})
        for piece in self._pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    def shown(self) -> list[bytes | None]:
        """The credentials of each request."""
        return [one["headers"].get(b"authorization") for one in self.asked]


async def test_only_given_options_are_sent() -> None:
    """No type of content, no codings of our own, nothing that a server left here; an answer is all that came."""
    headers = [(b"warning", b"one"), (b"warning", b"two"), (b"set-cookie", b"a=b")]
    server = Recorder(201, headers, [b'{"a":', b"1}"])
    async with serve(server) as url, Connection(url) as http:
        given = await http.request("GET", "/")
        await http.request("POST", "/", content="x")

    assert (given.status_code, given.json(), given.text) == (201, {"a": 1}, '{"a":1}')
    assert given.headers.getall("Warning") == ["one", "two"]
    # The second's headers, and no cookie.
    assert {*server.asked[1]["headers"]} == {b"host", b"user-agent", b"accept", b"content-length"}


async def test_a_path_and_its_query_arrive_as_they_were_given() -> None:
    """Escapes stay escapes, and a query is read as it was meant."""
    server = Recorder()
    async with serve(server) as url, Connection(url) as http:
        await http.request("POST", "/a%2Fb/c", content="ü", params={"s": "x=1,y"}, headers={"Content-Type": "text/odd"})

    (asked,) = server.asked
    assert (asked["raw_path"], asked["query_string"], asked["body"]) == (b"/a%2Fb/c", b"s=x%3D1,y", "ü".encode())
    assert asked["headers"][b"content-type"] == b"text/odd"


async def test_a_large_body_arrives_whole(tmp_path: Path) -> None:
    """A large body arrives whole and with its length, also when the request is repeated after a 401."""

    def refuse(headers: dict[bytes, bytes]) -> int:
        (tmp_path / "token").write_text("newer")
        return 401

    server = Recorder(refuse)
    (tmp_path / "token").write_text("t")
    async with (
        serve(server) as url,
        Connection.from_kubeconfig(kubeconfig(tmp_path, url, {"tokenFile": str(tmp_path / "token")})) as http,
    ):
        await http.request("POST", "/", content=b"x" * (3 << 20))

    lengths = [(len(asked["body"]), asked["headers"][b"content-length"]) for asked in server.asked]
    assert lengths == [(3 << 20, b"3145728")] * 2


async def test_a_redirection_is_an_answer() -> None:
    """A redirection is not followed; the caller gets it as the answer."""
    async with serve(Recorder(301, [(b"location", b"/elsewhere")])) as url, Connection(url) as http:
        assert (await http.request("GET", "/")).status_code == 301


async def test_lines_end_at_line_feeds_alone() -> None:
    """Wherever the pieces were cut; what no line feed ended is no line."""
    server = Recorder(pieces=[b"on", b"e\ntwo\r", "\u2028still two\nhalf".encode()])
    async with serve(server) as url, Connection(url) as http, http.stream("GET", "/") as stream:
        seen = [line async for line in stream.lines()]

    assert seen == [b"one", "two\r\u2028still two".encode()]


@pytest.mark.parametrize("levels", [0, 60, 5_000])
def test_deep_values_of_an_object_hide_no_other(levels: int) -> None:
    """An author may nest managed fields thousands of levels deep; the rest of the list is read as ever."""
    deep = '{"f:\\"{[a":' * levels + "{}" + "}" * levels
    text = f'{{"items": [{{"deep": {deep}, "name": "a]"}}, {{"name": "b"}}]}}'.encode()

    first, second = decoded(text)["items"]
    assert (first["name"], second) == ("a]", {"name": "b"})


async def test_no_server_is_a_transport_error() -> None:
    """The text names the file that was looked for."""
    async with serve(None) as url:
        pass
    async with Connection(url) as http:
        with pytest.raises(TransportError, match=url.removeprefix("http://").split(":")[1]):
            await http.request("GET", "/")


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", b"nonsense\r\n\r\n"])
async def test_half_an_answer_is_a_transport_error(said: bytes) -> None:
    """Whatever was there already is not taken for the whole."""

    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        await writer.drain()

    async with peer(break_off) as http:
        with pytest.raises(TransportError):
            await http.request("POST", "/")


async def test_a_stream_may_be_silent_for_so_long_and_no_longer() -> None:
    """A watch of a server that hangs is given up."""

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        await reader.read()

    async with peer(say_nothing) as http, http.stream("GET", "/", silent_for=0.05) as stream:
        with pytest.raises(TransportError):
            await stream.read()


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "POST"])
async def test_a_request_whose_connection_broke_is_not_sent_again(method: str) -> None:
    """A request that writes is not sent again, because the server may have carried it out before the connection broke."""
    asked = []

    async def read_and_go(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).split()[0].decode())

    async with peer(read_and_go) as http:
        with pytest.raises(TransportError):
            await http.request(method, "/")

    assert asked == [method]


async def test_get_is_sent_again_after_a_silently_closed_connection() -> None:
    """A GET changes nothing, so it is sent again if the server has silently closed the connection."""
    asked = 0

    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        await reader.readuntil(b"\r\n\r\n")
        asked += 1
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        # A request after it is not answered.
        await reader.read(1)

    async with peer(answer_once) as http:
        assert [(await http.request("GET", "/")).text for _ in range(3)] == ["ok"] * 3

    assert asked == 3


async def test_a_chunk_that_is_none_ends_a_stream() -> None:
    """Though the server then sends nothing more and keeps the connection."""
    taken = asyncio.Event()

    async def say_nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n")
        await taken.wait()
        writer.write(b"no length\r\n")
        await reader.read()

    async with peer(say_nonsense) as http, http.stream("GET", "/", silent_for=0.2) as stream:
        pieces = stream.pieces()
        assert await anext(pieces) == b"ab"
        taken.set()
        with pytest.raises(TransportError):
            await anext(pieces)


def talk_and_freeze(listener: socket.socket, context: ssl.SSLContext, closed: threading.Event) -> None:
    """A server that takes one request and then does nothing, not even say good-bye; ``closed`` once the client has gone."""
    with context.wrap_socket(listener.accept()[0], server_side=True) as talking:
        # A reset ends the connection, too.
        with contextlib.suppress(ConnectionResetError):
            talking.recv(65536)
            while os.read(talking.fileno(), 65536):
                pass
        closed.set()


async def test_given_up_connection_is_closed_though_its_peer_hangs(tmp_path: Path) -> None:
    """Over TLS a good-bye waits for an answer."""
    authority, closed = Authority(tmp_path), threading.Event()
    pair = authority.issue_server("frozen", ("127.0.0.1",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    trust = ssl.create_default_context(cafile=str(authority.ca))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=talk_and_freeze, args=(listener, context, closed))
        server.start()
        async with Connection(f"https://127.0.0.1:{listener.getsockname()[1]}", tls=trust) as http:
            with pytest.raises(TransportError):
                async with http.stream("GET", "/", silent_for=0.05):
                    pass
        assert await asyncio.to_thread(closed.wait, 300)
        server.join()


async def test_a_server_that_reads_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a body is being sent, too."""
    monkeypatch.setattr("clusters.api.connection.ANSWER_SECONDS", 0.05)
    over = asyncio.Event()

    async def read_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()

    async with peer(read_nothing) as http:
        with pytest.raises(TransportError):
            async with http.stream("POST", "/", content=b"x" * (20 << 20), silent_for=0.05):
                pass
        over.set()


async def test_a_callers_own_limit_is_the_callers() -> None:
    """The caller's own time limit raises its TimeoutError, not a TransportError that would be tried again."""

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with peer(say_nothing) as http:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await http.request("GET", "/")


@asynccontextmanager
async def peer(
    talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[Connection]:
    """A connection to a server that does not speak HTTP. Leaving waits for the connections that the server has accepted.

    A client that soon gives up may be gone before the server accepts it.
    """
    talking: list[asyncio.Task[None]] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talking.append(asyncio.current_task())  # type: ignore[arg-type]
        await talk(reader, writer)
        writer.close()
        await asyncio.wait([asyncio.ensure_future(writer.wait_closed())])

    async with await asyncio.start_server(take, "127.0.0.1", 0) as server:
        async with Connection(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as http:
            yield http
        if talking:
            await asyncio.wait(talking, timeout=30)


def kubeconfig(folder: Path, url: str, user: dict[str, Any]) -> Path:
    """One for this user of this server."""
    kubeconfig_file.write_parts(folder / "kubeconfig", {"server": url}, user)
    return folder / "kubeconfig"


async def test_token_file_is_read_again_after_a_refusal(tmp_path: Path) -> None:
    """Tokens of ServiceAccounts rotate; once for each refusal."""
    token, taken = tmp_path / "token", [b"one"]
    server = Recorder(lambda headers: 200 if headers[b"authorization"] == b"Bearer " + taken[0] else 401)
    async with serve(server) as url:
        token.write_text("one")
        async with Connection.from_kubeconfig(kubeconfig(tmp_path, url, {"tokenFile": str(token)})) as http:
            codes = [(await http.request("GET", "/")).status_code]
            taken[0] = b"two"
            codes.append((await http.request("GET", "/")).status_code)
            token.write_text("two")
            codes += [(await http.request("GET", "/")).status_code for _ in range(2)]

    assert codes == [200, 401, 200, 200]
    assert server.shown() == [*[b"Bearer one"] * 3, *[b"Bearer two"] * 2]


@pytest.mark.parametrize(
    ("user", "shown"),
    [({}, None), ({"token": "t"}, b"Bearer t"), ({"username": "a", "password": "b"}, b"Basic YTpi")],
    ids=["nobody", "token", "password"],
)
async def test_who_one_is_comes_from_the_kubeconfig(tmp_path: Path, user: dict[str, Any], shown: bytes | None) -> None:
    """The kubeconfig's credential is sent, and a refusal is not tried again if there is no other credential."""
    server = Recorder(401)
    async with serve(server) as url, Connection.from_kubeconfig(kubeconfig(tmp_path, url, user)) as http:
        assert (await http.request("GET", "/")).status_code == 401

    assert server.shown() == [shown]


async def test_no_request_is_sent_before_the_login_is_done(tmp_path: Path) -> None:
    """A login plugin runs once, however many requests wait for it; a server may take anonymous clients, and refuse them."""
    plugin, runs, server = tmp_path / "plugin", tmp_path / "runs", Recorder()
    credential = json.dumps({"status": {"token": "t"}})
    plugin.write_text(f"#!/bin/sh\necho run >> {runs}\necho '{credential}'\n")
    plugin.chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": str(plugin)}}
    async with serve(server) as url, Connection.from_kubeconfig(kubeconfig(tmp_path, url, user)) as http:
        await asyncio.gather(*(http.request("GET", "/") for _ in range(3)))

    assert server.shown() == [b"Bearer t"] * 3
    assert runs.read_text() == "run\n"


@pytest.mark.parametrize("says", ["secret", '{"status": {}}', "[]"])
async def test_a_plugin_without_a_token_is_an_error_of_its_own(tmp_path: Path, says: str) -> None:
    """No request goes out, and its output is not shown."""
    plugin, server = {"apiVersion": "client.authentication.k8s.io/v1", "command": "echo", "args": [says]}, Recorder()
    async with serve(server) as url, Connection.from_kubeconfig(kubeconfig(tmp_path, url, {"exec": plugin})) as http:
        with pytest.raises(ValueError, match="echo gave no token") as caught:
            await http.request("GET", "/")

    assert (server.asked, "secret" in str(caught.value)) == ([], False)


async def test_a_log_in_that_failed_is_tried_again(tmp_path: Path) -> None:
    """A token that is not there yet is an error of its own, and no request goes out without it."""
    token, server = tmp_path / "token", Recorder()
    async with serve(server) as url:
        config = kubeconfig(tmp_path, url, {"tokenFile": str(token)})
        async with Connection.from_kubeconfig(config) as http:
            with pytest.raises(FileNotFoundError):
                await http.request("GET", "/")
            token.write_text("t")
            await http.request("GET", "/")

    assert server.shown() == [b"Bearer t"]
