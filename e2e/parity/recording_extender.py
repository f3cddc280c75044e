"""A scheduler extender on loopback that records every call as it came and gives the answers of a case."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Call:
    """One request. ``connection`` counts connections from 1; ``number`` counts calls of the extender from 0."""

    method: str
    path: str
    header_lines: tuple[tuple[str, str], ...]
    body: bytes
    connection: int = 0
    number: int = 0

    @property
    def verb(self) -> str:
        """The last part of the path."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def headers(self) -> dict[str, str]:
        """Headers by their names in lower case."""
        return {name.lower(): value for name, value in self.header_lines}

    @property
    def message(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the extender: ``body`` is JSON, or bytes as they are."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def encoded(self) -> bytes:
        """The body as it goes out."""
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


Respond = Callable[[Call], Awaitable[Answer]]


def let_through(call: Call) -> Answer:
    """The filter's answer that keeps every node, in the form in which the nodes were asked about."""
    asked = call.message
    return Answer({"Nodes": asked["Nodes"], "NodeNames": asked["NodeNames"], "FailedNodes": {}, "Error": ""})


def refuse(call: Call, reason: str, *, unresolvable: bool = False, keep: tuple[str, ...] = ()) -> Answer:
    """The filter's answer that refuses every node but ``keep`` with a reason."""
    names = names_of(call)
    failed = {name: reason for name in names if name not in keep}
    kept = [name for name in names if name in keep]
    key = "FailedAndUnresolvableNodes" if unresolvable else "FailedNodes"
    nodes = call.message["Nodes"]
    if nodes is not None:
        nodes = {"items": [item for item in nodes["items"] if item["metadata"]["name"] in keep]}
    return Answer({"Nodes": nodes, "NodeNames": kept, key: failed, "Error": ""})


def names_of(call: Call) -> list[str]:
    """The nodes that a filter or prioritize call asks about."""
    asked = call.message
    if asked["NodeNames"] is not None:
        return list(asked["NodeNames"])
    return [item["metadata"]["name"] for item in asked["Nodes"]["items"]]


async def accept_all(call: Call) -> Answer:
    """Lets every node through, scores none, and reports every bind as done."""
    match call.verb:
        case "filter":
            return let_through(call)
        case "prioritize":
            return Answer([])
    return Answer({"Error": ""})


class RecordingExtender:
    """``respond`` may be replaced at any time; ``calls`` holds every request.

    When it stops, every connection that it accepted is closed, one of a moment before too.
    """

    def __init__(self, respond: Respond = accept_all, tls: ssl.SSLContext | None = None) -> None:
        self.respond = respond
        self.calls: list[Call] = []
        self.port = 0
        self._tls = tls
        self._connections = itertools.count(1)
        self._accepting: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The urlPrefix for a scheduler's configuration."""
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}/gpushare-scheduler"

    def on(self, **answers: Answer | Callable[[Call], Answer | Awaitable[Answer]]) -> None:
        """From now on give these answers to their verbs; a filter without one lets every node through."""

        async def respond(call: Call) -> Answer:
            answer = answers.get(call.verb, let_through)
            found = answer if isinstance(answer, Answer) else answer(call)
            return found if isinstance(found, Answer) else await found

        self.respond = respond

    def verbs(self) -> list[str]:
        """The verbs that were called, in order."""
        return [call.verb for call in self.calls]

    def of(self, verb: str) -> list[Call]:
        """The calls of one verb."""
        return [call for call in self.calls if call.verb == verb]

    async def start(self) -> Self:
        """Listen, on the port of before if there was one."""
        listener = socket.create_server(("127.0.0.1", self.port))
        listener.setblocking(False)
        self.port = listener.getsockname()[1]
        self._accepting = asyncio.create_task(self._accept(listener))
        return self

    async def stop(self) -> None:
        """Close everything."""
        accepting, self._accepting = self._accepting, None
        if accepting is not None:
            accepting.cancel()
            await asyncio.wait([accepting])

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with listener:
            async with asyncio.TaskGroup() as connections:
                while True:
                    accepted, _ = await loop.sock_accept(listener)
                    connections.create_task(self._serve(accepted))

    async def _serve(self, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, accepted, ssl=self._tls)
        except OSError:
            accepted.close()
            return
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        connection = next(self._connections)
        try:
            while True:
                await self._answer(connection, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the caller has gone
        except asyncio.CancelledError:
            transport.abort()
        finally:
            writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    async def _answer(self, connection: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        call = await _read(reader, connection, len(self.calls))
        self.calls.append(call)
        answer = await self.respond(call)
        lines = "".join(f"{name}: {value}\r\n" for name, value in answer.headers.items())
        head = f"HTTP/1.1 {answer.status} Word\r\nContent-Length: {len(answer.encoded)}\r\n{lines}\r\n"
        writer.write(head.encode() + answer.encoded)
        await writer.drain()


async def _read(reader: asyncio.StreamReader, connection: int, number: int) -> Call:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, path, _ = head[0].split()
    lines = tuple((name, value) for name, _, value in (line.partition(": ") for line in head[1:] if line))
    length = next((value for name, value in lines if name.lower() == "content-length"), "0")
    return Call(method, path, lines, await reader.readexactly(int(length)), connection, number)
