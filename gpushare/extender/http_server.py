"""The HTTP edge: routes, bodies, status codes. A bare ASGI application; a framework would cost more than the decision.

kube-scheduler reads an answer only when its status is exactly 200 (its pkg/scheduler/extender.go), so whatever an extender verb has
to say, a refusal too, is 200 with ``Error``. Paths, the texts of 404 and 405 and the redirect of a trailing slash are
the original's.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from gpushare import wire
from gpushare.errors import GpushareError
from gpushare.extender import messages
from gpushare.extender.bind import Binder
from gpushare.extender.cache import SchedulerCache
from gpushare.extender.filter import filter_nodes
from gpushare.extender.inspection import inspect_node, inspect_nodes
from gpushare.model.pod import request_of

_LOG = logging.getLogger(__name__)

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
_JSON: Final = b"application/json"
_TEXT: Final = b"text/plain; charset=utf-8"
# 15,000 full nodes of 12 kB make 180 MB; anything above is no scheduler.
LARGEST_BODY_BYTES: Final = 256 * 1024 * 1024


class Answer(NamedTuple):
    """What goes back."""

    status: int
    content_type: bytes = _TEXT
    body: bytes = b""
    location: bytes = b""


_NOT_ALLOWED: Final = Answer(405, _TEXT, b"Method Not Allowed\n")


class BodyTooLargeError(GpushareError):
    """A body that no scheduler sends."""


class HttpServer:
    """The ASGI application. ``is_ready`` says whether the book is complete."""

    def __init__(self, cache: SchedulerCache, binder: Binder, is_ready: Callable[[], bool]) -> None:
        self._cache = cache
        self._binder = binder
        self._is_ready = is_ready
        self._posts: dict[str, Callable[[bytes], Awaitable[bytes]]] = {
            wire.PATH_FILTER: self._filter,
            wire.PATH_BIND: self._bind,
        }
        self._gets: dict[str, Callable[[], Answer]] = {
            wire.PATH_VERSION: lambda: Answer(200, _TEXT, wire.API_VERSION.encode()),
            wire.PATH_INSPECT: lambda: Answer(200, _JSON, messages.encode_json(inspect_nodes(cache.snapshot()))),
            "/healthz": lambda: Answer(200, _TEXT, b"ok"),
            "/readyz": self._ready,
        }

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request; an unexpected failure is logged and answered, and the program lives on."""
        if scope["type"] != "http":
            return
        try:
            answer = await self._answer(scope["method"], scope["path"], receive)
        except BodyTooLargeError as error:
            answer = Answer(413, _TEXT, str(error).encode())
        except Exception:
            _LOG.exception("failed method=%s path=%r", scope["method"], scope["path"])
            answer = Answer(500, _TEXT, b"internal error; the extender's log has the details\n")
        await _respond(send, answer)

    async def _answer(self, method: str, path: str, receive: Receive) -> Answer:
        verb = self._posts.get(path)
        if verb is not None:
            if method != "POST":
                return _NOT_ALLOWED
            return Answer(200, _JSON, await verb(await _body(receive)))
        read = self._gets.get(path)
        if read is not None:
            return read() if method in ("GET", "HEAD") else _NOT_ALLOWED
        if path.endswith("/") and (path[:-1] in self._gets or path[:-1] in self._posts):
            return Answer(301 if method == "GET" else 308, location=path[:-1].encode())
        name = path.removeprefix(wire.PATH_INSPECT + "/")
        if name != path and name and "/" not in name:
            return self._inspect_one(name) if method in ("GET", "HEAD") else _NOT_ALLOWED
        return Answer(404, _TEXT, b"404 page not found\n")

    async def _filter(self, body: bytes) -> bytes:
        """No await inside: the answer is of one moment."""
        try:
            args = messages.decode_args(body)
            pod = args.pod
            assert pod is not None
            request = request_of(pod)
            full = messages.names_of(args.nodes) if args.nodes is not None and args.node_names is None else None
            names = [name for name, _ in full] if full is not None else args.node_names or []
        except GpushareError as error:
            _LOG.info("refused to filter reason=%s", error)
            return messages.encode_filter_error(str(error))
        if not self._is_ready():
            return messages.encode_filter_error("the extender has not read the cluster yet; try again")
        result = filter_nodes(request, names, self._cache.snapshot())
        _LOG.info(
            "filtered pod=%s/%s units=%d nodes=%d fit=%d",
            pod.metadata.namespace, pod.metadata.name, request.units, len(names), len(result.fitting),
        )  # fmt: skip
        if full is None:
            return messages.encode_filter_result(result)
        fitting = set(result.fitting)
        return messages.encode_filter_result(result, [item for name, item in full if name in fitting])

    async def _bind(self, body: bytes) -> bytes:
        try:
            args = messages.decode_binding(body)
            if not self._is_ready():
                return messages.encode_binding_result("the extender has not read the cluster yet; try again")
            await self._binder.bind(args)
        except GpushareError as error:
            return messages.encode_binding_result(str(error))
        return messages.encode_binding_result()

    def _inspect_one(self, name: str) -> Answer:
        described = inspect_node(self._cache.snapshot(), name)
        return Answer(404 if "error" in described else 200, _JSON, messages.encode_json(described))

    def _ready(self) -> Answer:
        if self._is_ready():
            return Answer(200, _TEXT, b"ok")
        return Answer(503, _TEXT, b"the first list of nodes and pods is not complete")


async def _body(receive: Receive) -> bytes:
    """The whole body. Raises BodyTooLargeError."""
    parts: list[bytes] = []
    size = 0
    more = True
    while more:
        message = await receive()
        part = message.get("body", b"")
        size += len(part)
        if size > LARGEST_BODY_BYTES:
            raise BodyTooLargeError(f"the body is larger than {LARGEST_BODY_BYTES} bytes")
        parts.append(part)
        more = message.get("more_body", False)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _respond(send: Send, answer: Answer) -> None:
    # Without a length Go's client may drop the connection after each answer.
    headers = [(b"content-length", str(len(answer.body)).encode())]
    if answer.location:
        headers.append((b"location", answer.location))
    else:
        headers.append((b"content-type", answer.content_type))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
