"""The kubelet's HTTP endpoint, as far as an API server needs it: containers' logs.

``GET /containerLogs/<namespace>/<pod>/<container>`` with the query that kubectl sends; plain HTTP on loopback, or TLS if a
certificate is given (a real API server asks its kubelets over TLS). A log that is followed ends with its container. There are no
processes, so exec, attach and port-forward are refused with 501 and a Status.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import parse_qs, unquote

import msgspec

from clusters.api.waiting import side_by_side
from clusters.kubelet.kubelet_pods import NodePods
from clusters.kubelet.runtime import Line, Run
from clusters.processes.http_server import HttpServer

_TEXT, _JSON = "text/plain; charset=utf-8", "application/json"
_NANOSECONDS: Final = 1_000_000_000
_NEEDS_A_PROCESS: Final = ("exec", "attach", "portForward", "run")

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


# Longer than any client keeps an idle connection: one that we close first may be closed under a request that is on its way.
_KEEP_ALIVE_SECONDS: Final = 300


class LogEndpoint:
    """The HTTP server; ``tls`` is a certificate's file and its key's."""

    def __init__(self, source: NodePods, clock: Callable[[], float], tls: tuple[Path, Path] | None = None) -> None:
        self._source = source
        self._clock = clock
        self._tls = tls
        self._stopping = asyncio.Event()
        self._server: HttpServer | None = None

    async def start(self) -> int:
        """Serve on a free port of loopback; answers the port."""
        self._stopping.clear()
        certificate, key = self._tls or (None, None)
        self._server = HttpServer(
            self._app, ssl_certfile=certificate, ssl_keyfile=key, timeout_keep_alive=_KEEP_ALIVE_SECONDS
        )
        return await self._server.listen()

    async def stop(self) -> None:
        """Stop serving; logs that are followed end here."""
        self._stopping.set()
        if self._server is not None:
            await self._server.end()
            self._server = None

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path = unquote(scope["raw_path"].decode()).strip("/").split("/")
        if scope["method"] == "GET" and len(path) == 4 and path[0] == "containerLogs":
            query = {name: values[-1] for name, values in parse_qs(scope["query_string"].decode()).items()}
            await self._log(path[1:], query, receive, send)
        elif path[0] in _NEEDS_A_PROCESS:
            # A Status, because kubectl shows the message of that and of nothing else.
            message = f"{path[0]} is not possible here: containers are simulated, no process runs in them"
            status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 501}
            await _send(send, 501, json.dumps({**status, "message": message, "reason": "NotImplemented"}), _JSON)
        else:
            await _send(send, 404, "not found: this endpoint knows /containerLogs/<namespace>/<pod>/<container>\n")

    async def _log(self, path: list[str], query: Mapping[str, str], receive: Receive, send: Send) -> None:
        try:
            # An API server has read it before.
            options = msgspec.convert(query, LogOptions, strict=False)
            run = self._source.container_log(path[0], path[1], path[2], options.previous)
        except LookupError as error:
            await _send(send, 404, str(error.args[0]))
        except ValueError as error:
            await _send(send, 400, str(error))
        else:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", _TEXT.encode())]})
            async with contextlib.aclosing(self._pieces(run, options, receive)) as pieces:
                async for piece in pieces:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

    async def _pieces(self, run: Run, options: LogOptions, receive: Receive) -> AsyncGenerator[bytes, None]:
        """The log so far, and what comes as long as it is followed: until container, reader or this endpoint end."""
        left, since = options.limit_bytes, options.since(self._clock())
        position = options.first(run.log)
        async with side_by_side(_is_gone(receive), self._stopping.wait()) as over:
            while True:
                piece = options.text(run.log[position:], since)[:left]
                position = len(run.log)
                left = None if left is None else left - len(piece)
                # Sent even if it is empty: a client that follows sees immediately that the log is there.
                yield piece
                if not options.follow or left == 0 or run.exit is not None:
                    return
                async with side_by_side(run.more_log(position)) as news:
                    await asyncio.wait({*news, *over}, return_when=asyncio.FIRST_COMPLETED)
                if any(task.done() for task in over):
                    return


async def _is_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(send: Send, status: int, body: str, content_type: str = _TEXT) -> None:
    content = body.encode()
    headers = [(b"content-type", content_type.encode()), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


class LogOptions(msgspec.Struct, frozen=True, rename="camel"):
    """The query of a log, with the names of PodLogOptions in the API.

    The last lines are counted first, then those before the time are left out.
    """

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: Annotated[int, msgspec.Meta(ge=0)] | None = None
    since_seconds: Annotated[int, msgspec.Meta(ge=1)] | None = None
    since_time: datetime | None = None
    limit_bytes: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Bytes after which nothing more comes."""

    def since(self, now: float) -> float:
        """The Unix second from which lines are shown."""
        if self.since_seconds is not None:
            return now - self.since_seconds
        return self.since_time.timestamp() if self.since_time is not None else 0.0

    def first(self, lines: Sequence[Line]) -> int:
        """The index of the first line to show."""
        return 0 if self.tail_lines is None else max(len(lines) - self.tail_lines, 0)

    def text(self, lines: Sequence[Line], since: float) -> bytes:
        """The lines as they are sent."""
        shown = [line for line in lines if line.time >= since]
        stamps = [f"{nanoseconds(line.time)} " if self.timestamps else "" for line in shown]
        return "".join(f"{stamp}{line.text}\n" for stamp, line in zip(stamps, shown, strict=True)).encode()


def nanoseconds(seconds: float) -> str:
    """A time as container runtimes write it before each line: RFC 3339 with nine digits of the second."""
    whole = int(seconds)
    rest = int((seconds - whole) * _NANOSECONDS)
    return f"{datetime.fromtimestamp(whole, UTC).strftime('%Y-%m-%dT%H:%M:%S')}.{rest:09}Z"
