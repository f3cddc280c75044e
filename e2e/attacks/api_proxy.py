"""A proxy between a program and a server, such as the API server, at which each call is counted, and may be refused or lost."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import yaml
from aiohttp import web

from clusters.api.connection import Connection
from clusters.processes.scratch import free_port
from e2e.parity.sides import authority

_HOST: Final = "127.0.0.1"
# How long calls under way may take when it closes; 0 would be for ever, and a watch ends only with its client.
_CLOSE_SECONDS: Final = 0.1
# Headers that are about one connection. Nothing is compressed, so that the bytes counted are those that the program reads.
_NOT_FORWARDED: Final = frozenset(
    {"accept-encoding", "connection", "content-length", "host", "keep-alive", "transfer-encoding"}
)


@dataclass(slots=True)
class Call:
    """One request. ``received`` are the bytes of the answer so far."""

    method: str
    path: str
    is_watch: bool
    received: int = 0


async def _lets_pass(call: Call) -> int:
    return 0


async def _keeps(call: Call) -> bool:
    return False


def _unaltered(call: Call, piece: bytes) -> bytes:
    return piece


class ApiProxy:
    """A reverse proxy on loopback, in plain HTTP; ``calls`` are in the order in which they came.

    ``refuse`` is asked before a call is carried: the status that answers it, or 0. ``lose`` is asked when the API server has
    carried it out: does the connection break without an answer? ``alter`` gives what is passed on of a piece of an answer.
    """

    def __init__(self, far: Connection | None = None) -> None:
        """``far`` is the way on, with its own credentials; if it is not given, ``lead_to`` names it."""
        self.calls: list[Call] = []
        self.refuse: Callable[[Call], Awaitable[int]] = _lets_pass
        self.lose: Callable[[Call], Awaitable[bool]] = _keeps
        self.alter: Callable[[Call, bytes], bytes] = _unaltered
        self._port = free_port()
        self.url = f"http://{_HOST}:{self._port}"
        self._far = far or Connection()
        self._runner: web.AppRunner | None = None

    def lead_to(self, kubeconfig: Path) -> None:
        """Say which API server is behind it: the one of this kubeconfig. Callers bring their own tokens."""
        server = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        self._far = Connection(server, tls=ssl.create_default_context(cadata=authority(kubeconfig)))

    async def __aenter__(self) -> Self:
        """Let calls in."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._carry)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=_CLOSE_SECONDS, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, _HOST, self._port).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """End it, and the watches that go through it."""
        if self._runner is not None:
            await self._runner.cleanup()
        await self._far.close()

    async def _carry(self, request: web.Request) -> web.StreamResponse:
        call = Call(request.method, request.path, "watch" in request.query)
        self.calls.append(call)
        if status := await self.refuse(call):
            return web.json_response({"kind": "Status", "code": status, "message": "the proxy is shut"}, status=status)
        content, headers = await request.read() or None, _forwarded(request.headers.items())
        where = str(request.rel_url)
        async with self._far.stream(call.method, where, content=content, headers=headers, silent_for=None) as answer:
            if await self.lose(call) and request.transport is not None:
                request.transport.abort()
            response = web.StreamResponse(status=answer.status_code, headers=_forwarded(answer.headers.items()))
            await response.prepare(request)
            async for piece in answer.pieces():
                call.received += len(piece)
                if passed := self.alter(call, piece):
                    await response.write(passed)
        return response


def _forwarded(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {name: value for name, value in headers if name.lower() not in _NOT_FORWARDED}
