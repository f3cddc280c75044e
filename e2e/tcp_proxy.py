"""A proxy of TCP on loopback that can be cut, held or slow: to an API server, or to one of several extenders."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

import yaml

_HOST: Final = "127.0.0.1"
_PIECE_BYTES: Final = 1 << 16


class TcpProxy:
    """Carries connections to one of ``ports`` in turn, as a Service does: one that refuses is passed over."""

    def __init__(self, *ports: int) -> None:
        self.port = 0
        """Where it begins, while it is open."""
        self.held = 0
        """How many pieces have had to wait on it."""
        self._ports = list(ports)
        self._requests_flow, self._answers_flow = asyncio.Event(), asyncio.Event()
        self._is_closed = False
        self._delay = 0.0
        self._connections: dict[asyncio.Task[None], list[asyncio.StreamWriter]] = {}
        self._server: asyncio.Server | None = None
        self.restore()

    async def __aenter__(self) -> Self:
        """Let connections in."""
        self._server = await asyncio.start_server(self._carry, _HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        """End it, and all that is on it."""
        assert self._server is not None
        self._server.close()
        # The tasks of connections that came last begin, so that they are known here.
        await asyncio.sleep(0)
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    def cut(self, *, silent: bool) -> None:
        """Let nothing through. ``silent``: what is under way arrives after ``restore``; else connections break."""
        if silent:
            self.hold_requests()
            self._answers_flow.clear()
            return
        self._is_closed = True
        for writers in self._connections.values():
            for writer in writers:
                writer.transport.abort()

    def hold_requests(self) -> None:
        """Hold back all requests until it is restored; answers come through."""
        self._requests_flow.clear()

    def slow_down(self, seconds: float) -> None:
        """Each piece arrives later by this time."""
        self._delay = seconds

    def restore(self) -> None:
        """Let all through again, immediately."""
        self._is_closed = False
        self._delay = 0.0
        self._requests_flow.set()
        self._answers_flow.set()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        ends = self._connections[task] = [writer]
        try:
            far = None if self._is_closed else await self._dial()
            if far is not None:
                ends.append(far[1])
                await asyncio.gather(
                    self._pump(reader, far[1], self._requests_flow), self._pump(far[0], writer, self._answers_flow)
                )
        finally:
            for end in ends:
                end.transport.abort()
            del self._connections[task]

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """The next target that answers; None if none does."""
        for _ in self._ports:
            self._ports.append(port := self._ports.pop(0))
            with contextlib.suppress(OSError):
                return await asyncio.open_connection(_HOST, port)
        return None

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, flows: asyncio.Event) -> None:
        with contextlib.suppress(OSError):
            while piece := await source.read(_PIECE_BYTES):
                await asyncio.sleep(self._delay)
                self.held += not flows.is_set()
                await flows.wait()
                sink.write(piece)
                await sink.drain()
            if sink.can_write_eof():
                sink.write_eof()


@contextlib.asynccontextmanager
async def proxy_to_api(kubeconfig: Path, copy: Path) -> AsyncIterator[TcpProxy]:
    """A proxy to the API server of a kubeconfig, on this machine; ``copy`` becomes a kubeconfig that goes by it."""
    document: dict[str, Any] = yaml.safe_load(kubeconfig.read_text())
    (entry,) = document["clusters"]
    server = urlsplit(entry["cluster"]["server"])
    assert server.port is not None
    async with TcpProxy(server.port) as proxy:
        entry["cluster"]["server"] = f"{server.scheme}://{_HOST}:{proxy.port}"
        copy.write_text(yaml.safe_dump(document))
        yield proxy
