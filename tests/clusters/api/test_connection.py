"""Promises of clusters.api.connection: kubeconfigs, whole answers, streams, credentials, and failures as one error."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.api import kubeconfig_file
from clusters.api.connection import Connection, TransportError, merged
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
        return [one["headers"].get(b"authorization") for one in self.asked]


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


def written(path: Path, name: str, *, current: str = "", **user: str) -> Path:
    """A kubeconfig with one part of each kind, all of one name."""
    document = {
        "clusters": [{"name": name, "cluster": {"server": f"http://{path.stem}", "certificate-authority": "ca.crt"}}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": current,
    }
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return path


def test_several_files_are_one_kubeconfig(tmp_path: Path) -> None:
    """The first file with a name counts, also for the current context; a missing file is passed over."""
    files = [
        tmp_path / "none",
        written(tmp_path / "one", "same"),
        written(tmp_path / "two", "same", current="other"),
        written(tmp_path / "three", "other", current="same"),
    ]
    whole = merged(files)
    servers = {name: cluster["server"] for name, cluster in whole["clusters"].items()}
    assert servers == {"same": "http://one", "other": "http://three"}
    assert whole["current-context"] == "other"
    assert Connection.from_kubeconfig(files).url == "http://three"
    assert Connection.from_kubeconfig(files, "same").url == "http://one"
