"""An HTTP server inside a program: uvicorn on loopback, as one of several servers, without its signal handlers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any, Final

import uvicorn

_HOST: Final = "127.0.0.1"


class HttpServer(uvicorn.Server):
    """Serves an ASGI application between ``listen`` and ``end``; ``settings`` are uvicorn's."""

    def __init__(self, application: Any, **settings: Any) -> None:
        quiet = {"log_config": None, "access_log": False, "date_header": False}
        plain = {"interface": "asgi3", "lifespan": "off", "ws": "none", "timeout_graceful_shutdown": 1}
        super().__init__(uvicorn.Config(application, **{**quiet, **plain, **settings}))
        self._listening = asyncio.Event()
        self._ending = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None

    async def listen(self, port: int = 0) -> int:
        """Listen on loopback and answer the port (0: any free one). Raises OSError when it is taken."""
        # The protocol is named: asyncio switches Nagle off (40 ms an answer) only if it knows that this is TCP.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((_HOST, port))
        except OSError:
            listener.close()
            raise
        self._serving = asyncio.create_task(self.serve([listener]))
        await self._listening.wait()
        return int(listener.getsockname()[1])

    async def end(self) -> None:
        """Take no more connections, and return when all have ended."""
        self._ending.set()
        if self._serving is not None:
            await self._serving

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the program."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then tell."""
        await super().startup(sockets)
        self._listening.set()

    async def main_loop(self) -> None:
        """Serve until it is ended, without a check ten times a second."""
        await self._ending.wait()
        self.should_exit = True
