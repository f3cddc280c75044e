"""A scheduler extender for tests: a real HTTP server on loopback whose answers a test decides."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Call:
    verb: str
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Answer:
    body: Any = None
    status: int = 200

    @property
    def encoded(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


Respond = Callable[[Call], Awaitable[Answer]]


async def accept_all(call: Call) -> Answer:
    """Lets every node through and says that every bind is done."""
    if call.verb == "filter":
        return Answer({"NodeNames": call.message["NodeNames"], "Error": ""})
    return Answer({"Error": ""})


class LocalExtender:
    """``respond`` may be replaced at any time; ``calls`` holds every request."""

    def __init__(self, respond: Respond = accept_all, tls: ssl.SSLContext | None = None) -> None:
        self.respond = respond
        self._tls = tls
        self.calls: list[Call] = []
        self.port = 0
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/gpushare-scheduler"

    def verbs(self) -> list[str]:
        return [call.verb for call in self.calls]

    async def start(self) -> LocalExtender:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            connections = list(self._connections)
            for task, writer in self._connections.items():
                writer.transport.abort()
                task.cancel()
            await asyncio.gather(*connections, return_exceptions=True)
            await self._server.wait_closed()
            self._server = None

    async def __aenter__(self) -> LocalExtender:
        return await self.start()

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = writer
        try:
            while True:
                call = await read_call(reader)
                self.calls.append(call)
                answer = await self.respond(call)
                head = f"HTTP/1.1 {answer.status} Word\r\nContent-Length: {len(answer.encoded)}\r\n\r\n"
                writer.write(head.encode() + answer.encoded)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            # The caller has gone, or stop() has ended us; asyncio would log a cancelled connection as an error.
            pass
        finally:
            del self._connections[task]
            writer.close()


async def read_call(reader: asyncio.StreamReader) -> Call:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Call(head[0].split()[1].rsplit("/", 1)[-1], headers, body)
