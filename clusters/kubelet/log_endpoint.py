"""The kubelet's HTTP endpoint, as far as an API server and tests need it: containers' logs and the list of pods.

``GET /containerLogs/<namespace>/<pod>/<container>?tailLines=n&previous=true&follow=true``, ``GET /pods``, ``GET /healthz``; plain
HTTP on loopback, or TLS where a certificate is given (a real API server asks its kubelets over TLS).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import parse_qs, unquote

import uvicorn

from clusters.kubelet.pods import Object

_LOOPBACK: Final = "127.0.0.1"
_TEXT, _JSON = "text/plain; charset=utf-8", "application/json"

# How often a log that is followed is looked at, in seconds.
_LOOK_SECONDS: Final = 0.1

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer."""

    status: int
    body: str
    content_type: str = _TEXT
    follows: tuple[str, ...] = ()
    """Namespace, pod and container whose further lines come as they are written."""


class LogSource(Protocol):
    """What the endpoint shows."""

    def pod_list(self) -> list[Object]:
        """The pods of this node with their newest status."""

    def container_log(self, namespace: str, pod: str, container: str, previous: bool) -> list[str]:
        """The lines. Raises LookupError where there is no such container, ValueError where it has not started."""


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: signals belong to the program, and several servers run in it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


class LogEndpoint:
    """The HTTP server; ``tls`` is a certificate's file and its key's."""

    def __init__(self, source: LogSource, tls: tuple[Path, Path] | None = None) -> None:
        self._source = source
        self._tls = tls
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> int:
        """Serve on a free port of loopback; answers the port."""
        listener = socket.create_server((_LOOPBACK, 0))
        certificate, key = self._tls or (None, None)
        config = uvicorn.Config(
            self._app,
            interface="asgi3",
            lifespan="off",
            log_config=None,
            access_log=False,
            ssl_certfile=certificate,
            ssl_keyfile=key,
            timeout_graceful_shutdown=1,
        )
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve([listener]), name="log endpoint")
        return int(listener.getsockname()[1])

    async def stop(self) -> None:
        """Stop serving."""
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            await self._task
            self._server = self._task = None

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        answer = self._answer(scope)
        if answer.follows:
            await self._follow(answer, receive, send)
            return
        body = answer.body.encode()
        headers = [(b"content-type", answer.content_type.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _answer(self, scope: Scope) -> Answer:
        if scope["method"] != "GET":
            return Answer(405, "only GET is answered here\n")
        path = unquote(scope["raw_path"].decode()).strip("/").split("/")
        if path == ["healthz"]:
            return Answer(200, "ok")
        if path == ["pods"]:
            pods = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": self._source.pod_list()}
            return Answer(200, json.dumps(pods), _JSON)
        if len(path) == 4 and path[0] == "containerLogs":
            return self._log(path[1:], parse_qs(scope["query_string"].decode()))
        return Answer(404, "not found: this endpoint knows /containerLogs/<namespace>/<pod>/<container> and /pods\n")

    def _log(self, path: list[str], query: Mapping[str, list[str]]) -> Answer:
        options = {name: values[-1] for name, values in query.items()}
        is_followed = options.get("follow", "false") not in ("false", "0")
        try:
            previous = options.get("previous", "false") in ("true", "1")
            lines = self._source.container_log(path[0], path[1], path[2], previous)
            follows = tuple(path) if is_followed and not previous else ()
            return Answer(200, tail(lines, options.get("tailLines")), follows=follows)
        except LookupError as error:
            return Answer(404, f"{error.args[0]}\n")
        except ValueError as error:
            return Answer(400, f"{error}\n")

    async def _follow(self, answer: Answer, receive: Receive, send: Send) -> None:
        """The lines that are there, then those that come, until the container ends or nobody listens."""
        namespace, pod, container = answer.follows
        # The list itself, which grows while the container writes.
        lines = self._source.container_log(namespace, pod, container, False)
        seen, text = len(lines), answer.body
        gone = asyncio.create_task(_until_gone(receive))
        headers = [(b"content-type", answer.content_type.encode())]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        try:
            while True:
                await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
                is_last = gone.done() or not self._is_running(namespace, pod, container)
                text = tail(lines[seen:], None)
                seen = len(lines)
                if is_last:
                    break
                await asyncio.wait([gone], timeout=_LOOK_SECONDS)
        finally:
            gone.cancel()
        await send({"type": "http.response.body", "body": text.encode()})

    def _is_running(self, namespace: str, pod: str, container: str) -> bool:
        for item in self._source.pod_list():
            if (item["metadata"]["namespace"], item["metadata"]["name"]) == (namespace, pod):
                status = item.get("status") or {}
                found = (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))
                return any(one["name"] == container and one["state"].get("running") is not None for one in found)
        return False


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def tail(lines: list[str], count: str | None) -> str:
    """The last ``count`` lines (None: all) as one text. Raises ValueError where the count is no whole number from 0 up."""
    if count is not None:
        if not count.isdecimal():
            raise ValueError(f"tailLines={count!r} is not a whole number from 0 up")
        lines = lines[max(len(lines) - int(count), 0) :]
    return "".join(f"{line}\n" for line in lines)
