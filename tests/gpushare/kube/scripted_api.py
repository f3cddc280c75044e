"""An API server with answers that a test writes down, on a real socket: it may also break off in mid-line, or hang."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from gpushare.kube.client import ApiClient
from gpushare.kube.http_pool import Login
from tests.servers import anonymous, http_pool

# Steps of a watch besides events: the end as HTTP has it, the connection gone, nothing more until the client leaves.
CLOSE, DROP, HOLD = "close", "drop", "hold"


@dataclass(frozen=True, slots=True)
class Call:
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer: ``body`` is JSON, or bytes as they are."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Watch:
    """A watch: events (mappings), raw bytes, and one of the words above at the end."""

    steps: Sequence[Any]


Respond = Callable[[Call], Answer | Watch | str]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class ScriptedApi:
    """Asks ``respond`` for each answer; ``calls`` holds every request. ``serve`` may be replaced, to answer without HTTP."""

    def __init__(self, respond: Respond) -> None:
        self.respond = respond
        self.calls: list[Call] = []
        self.serve: Serve = self._answer

    def of(self, method: str, *, watch: bool = False) -> list[Call]:
        """The calls of that method, watches or others."""
        return [call for call in self.calls if call.method == method and ("watch" in call.query) is watch]

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one request."""
        self.calls.append(await _read(reader))
        await _write(self.respond(self.calls[-1]), reader, writer)

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection until that ends, or the client leaves."""
        try:
            await self.serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            writer.close()


@asynccontextmanager
async def listen(api: ScriptedApi, *, port: int = 0, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve on loopback; the URL.

    When it ends, every connection that was accepted is closed; asyncio's own server forgets those of a moment before.
    """
    loop = asyncio.get_running_loop()
    serving: list[asyncio.Task[None]] = []
    with socket.create_server(("127.0.0.1", port)) as listener:
        listener.setblocking(False)

        def accept() -> None:
            with suppress(BlockingIOError):
                connection, _ = listener.accept()
                connection.setblocking(False)
                serving.append(loop.create_task(_serve(api, connection, tls)))
                # Also if it is cancelled before its first step.
                serving[-1].add_done_callback(lambda _: connection.close())

        loop.add_reader(listener, accept)
        try:
            yield f"http{'s' if tls else ''}://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            loop.remove_reader(listener)
            for task in serving:
                task.cancel()
            await asyncio.gather(*serving, return_exceptions=True)


async def _serve(api: ScriptedApi, connection: socket.socket, tls: ssl.SSLContext | None) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    try:
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection, ssl=tls)
    except OSError:
        return
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)
    await api.connection(reader, writer)
    with suppress(OSError):
        await writer.wait_closed()


@asynccontextmanager
async def client_of(url: str, timeout_seconds: float = 30, login: Login = anonymous) -> AsyncIterator[ApiClient]:
    """A client that trusts no certificate."""
    async with http_pool(url, timeout_seconds, login) as pool:
        yield ApiClient(pool)


def status(code: int, reason: str = "", message: str = "") -> dict[str, Any]:
    """The object of a refusal."""
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}


def listing(version: str, *items: Any, next_page: str = "") -> Answer:
    """A list of objects."""
    return Answer({"metadata": {"resourceVersion": version, "continue": next_page}, "items": list(items)})


def event(kind: str, item: Any) -> dict[str, Any]:
    """One event of a watch."""
    return {"type": kind, "object": item}


async def _read(reader: asyncio.StreamReader) -> Call:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    parts = urlsplit(target)
    return Call(method, unquote(parts.path), dict(parse_qsl(parts.query)), headers, json.loads(body) if body else None)


async def _write(answer: Answer | Watch | str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    if isinstance(answer, Watch):
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n")
        for step in answer.steps:
            if isinstance(step, str):
                await _end(step, reader, writer)
                return
            data = step if isinstance(step, bytes) else json.dumps(step).encode() + b"\n"
            writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            await writer.drain()
        await _end(CLOSE, reader, writer)
    elif isinstance(answer, Answer):
        body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        headers = {"content-length": str(len(body)), "connection": "close", **answer.headers}
        lines = [f"HTTP/1.1 {answer.status} X", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await writer.drain()
    else:
        await _end(answer, reader, writer)


async def _end(step: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    if step == HOLD:
        await writer.drain()
        await reader.read()
    elif step == CLOSE:
        writer.write(b"0\r\n\r\n")
        await writer.drain()


def answer_with(*tokens: str) -> ScriptedApi:
    """Takes these tokens, refuses others with 401."""

    def respond(call: Call) -> Answer:
        known = call.headers.get("authorization", "").removeprefix("Bearer ") in tokens
        return listing("1") if known else Answer(status(401, "Unauthorized"), 401)

    return ScriptedApi(respond)
