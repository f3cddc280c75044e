"""A road of TCP on loopback that can be cut: between a program and its API server, or between a scheduler and several extenders."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

_HOST: Final = "127.0.0.1"
_PIECE_BYTES: Final = 1 << 16


class Road:
    """Carries connections to one of ``ports`` in turn, as a Service does: one that refuses is passed over."""

    def __init__(self, *ports: int) -> None:
        self.port = 0
        """Where it begins, after ``open``."""
        self._ports = list(ports)
        self._flows = asyncio.Event()
        self._flows.set()
        self._is_closed = False
        self._delay = 0.0
        self._travellers: dict[asyncio.Task[None], list[asyncio.StreamWriter]] = {}
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Let connections in."""
        self._server = await asyncio.start_server(self._carry, _HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """End it, and all that is on it."""
        if self._server is not None:
            self._server.close()
            self.cut(silent=False)
            await asyncio.gather(*self._travellers, return_exceptions=True)
            await self._server.wait_closed()

    def cut(self, *, silent: bool) -> None:
        """Let nothing through. ``silent``: what is under way arrives when it is mended; else connections break and none is made."""
        if silent:
            self._flows.clear()
            return
        self._is_closed = True
        for writers in self._travellers.values():
            for writer in writers:
                writer.transport.abort()

    def slow_down(self, seconds: float) -> None:
        """Each piece arrives later by this time."""
        self._delay = seconds

    def mend(self) -> None:
        """Let all through again, immediately."""
        self._is_closed = False
        self._delay = 0.0
        self._flows.set()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        ends = self._travellers[task] = [writer]
        try:
            far = None if self._is_closed else await self._dial()
            if far is not None:
                ends.append(far[1])
                await asyncio.gather(self._pump(reader, far[1]), self._pump(far[0], writer))
        finally:
            for end in ends:
                end.transport.abort()
            del self._travellers[task]

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """The next target that answers; None if none does."""
        for _ in self._ports:
            self._ports.append(port := self._ports.pop(0))
            with contextlib.suppress(OSError):
                return await asyncio.open_connection(_HOST, port)
        return None

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await source.read(_PIECE_BYTES):
                await asyncio.sleep(self._delay)
                await self._flows.wait()
                sink.write(piece)
                await sink.drain()
            if sink.can_write_eof():
                sink.write_eof()
