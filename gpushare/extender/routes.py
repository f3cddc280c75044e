"""Each path with its function, the callers that it is open to, and its status.

kube-scheduler reads an answer only when its status is exactly 200 (its pkg/scheduler/extender.go), so whatever an extender verb has
to say, a refusal too, is 200 with ``Error``. Paths, the texts of 404 and 405 and the redirect of a trailing slash are
the original's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from gpushare import wire
from gpushare.extender.core import messages
from gpushare.extender.core.book import Book
from gpushare.extender.core.explain import describe_node, inspect_node, nodes_with_cards
from gpushare.extender.extender_metrics import BIND, FILTER, PREEMPT, PRIORITIZE
from gpushare.extender.live_page import LivePage
from gpushare.extender.verbs import Verbs
from gpushare.serving import web_pages
from gpushare.serving.http_connection import JSON, TEXT, Answer, HttpRequest

_LOG = logging.getLogger(__name__)

# Nodes that an inspection describes before it lets other requests run: half a millisecond of work.
_NODES_AT_ONCE: Final = 8

_NOT_FOUND: Final = Answer(404, TEXT, b"404 page not found\n")
NOT_ALLOWED: Final = Answer(405, TEXT, b"Method Not Allowed\n")
_UNKNOWN_CALLER: Final = Answer(401, TEXT, b"a client certificate is needed for this\n")
_OK: Final = Answer(200, TEXT, b"ok")
_NOT_READY: Final = Answer(503, TEXT, b"the first list of nodes and pods is not complete")
FAILED: Final = Answer(500, TEXT, b"internal error; the extender's log has the details\n")


def health(is_ready: Callable[[], bool]) -> dict[str, Callable[[HttpRequest], Answer]]:
    """The answers to a kubelet's probes by path; ``is_ready``: is the book complete?"""
    return {"/healthz": lambda _: _OK, "/readyz": lambda _: _OK if is_ready() else _NOT_READY}


class Routes:
    """The application. ``is_ready``: is the book complete? ``page`` is there unless the flag turns it off.

    ``allowed_hosts`` are more names by which callers call this server, see ``web_pages``.
    """

    def __init__(
        self,
        book: Book,
        verbs: Verbs,
        is_ready: Callable[[], bool],
        page: LivePage | None = None,
        allowed_hosts: Collection[str] = (),
        *,
        is_tls: bool = False,
    ) -> None:
        self._allowed_hosts, self._is_tls = allowed_hosts, is_tls
        self._book = book
        self._verbs = verbs
        # At most one inspection is being described; the next waits for it, and answers all callers that came since.
        self._describing = asyncio.Lock()
        self._inspection: asyncio.Future[bytes] | None = None
        # Open to all callers.
        self._probes = health(is_ready)
        self._posts: dict[str, Callable[[bytes], bytes | Awaitable[bytes]]] = {
            wire.PATH_FILTER: verbs.metrics.timed(FILTER)(verbs.filter),
            wire.PATH_PRIORITIZE: verbs.metrics.timed(PRIORITIZE)(verbs.prioritize),
            wire.PATH_PREEMPT: verbs.metrics.timed(PREEMPT)(verbs.preempt),
            wire.PATH_EXPLAIN: verbs.what_if,
            # The one that waits for the API server.
            wire.PATH_BIND: self._bind,
        }
        self._gets: dict[str, Callable[[HttpRequest], Answer | Awaitable[bytes | Answer]]] = {
            wire.PATH_VERSION: lambda _: Answer(200, TEXT, wire.API_VERSION.encode()),
            # It takes long if there are many nodes, and lets other requests run.
            wire.PATH_INSPECT: lambda _: self._inspect(),
            **self._probes,
            **({} if page is None else page.answers),
        }

    def __call__(self, request: HttpRequest) -> Answer | Awaitable[Answer]:
        """Answer one request; an unexpected failure is logged and answered, and the program lives on."""
        try:
            # A kubelet has no certificate, and calls a probe by the name that the pod's manifest has.
            is_probe = request.path in self._probes
            return (None if is_probe else self._refusal(request)) or self._answer(request)
        except messages.MalformedMessageError as error:
            return Answer(400, TEXT, f"{error}\n".encode())
        except Exception:
            return _failed(request)

    def _refusal(self, request: HttpRequest) -> Answer | None:
        if not request.is_known:
            return _UNKNOWN_CALLER
        return web_pages.refusal(request, wire.EXTENDER_SERVICE, self._allowed_hosts, is_tls=self._is_tls)

    def _answer(self, request: HttpRequest) -> Answer | Awaitable[Answer]:
        """No await in it: the answer is of one moment, unless the path is of those that wait."""
        path, verb = request.path, self._posts.get(request.path)
        if verb is not None and request.method == "POST":
            answer = verb(request.body)
            return Answer(200, JSON, answer) if isinstance(answer, bytes) else _awaited(answer, request)
        reads = request.method in ("GET", "HEAD")
        if path in self._gets and reads:
            found = self._gets[path](request)
            return found if isinstance(found, Answer) else _awaited(found, request)
        if path in self._posts or path in self._gets:
            return NOT_ALLOWED
        if path.endswith("/") and (path[:-1] in self._gets or path[:-1] in self._posts):
            return Answer(301 if request.method == "GET" else 308, location=path[:-1].encode())
        match path.removeprefix(wire.PATH_PREFIX + "/").split("/"):
            case ["inspect", name] if name:
                return self._inspect_one(name) if reads else NOT_ALLOWED
            case ["explain", namespace, name] if namespace and name:
                return self._explain(namespace, name) if reads else NOT_ALLOWED
            case _:
                return _NOT_FOUND

    async def _bind(self, body: bytes) -> bytes:
        with self._verbs.metrics.timed(BIND):
            return await self._verbs.bind(body)

    async def _inspect(self) -> bytes:
        """All nodes. Callers that wait together get the same answer, of a later moment than any of them asked."""
        if self._inspection is None:
            self._inspection = asyncio.ensure_future(self._describe_all())
        # Other callers wait for it too: one that goes away does not end it.
        return await asyncio.shield(self._inspection)

    async def _describe_all(self) -> bytes:
        """All nodes as they are when it begins, a few at a time: 5,000 in one go would keep a filter waiting for 0.3 s."""
        async with self._describing:
            self._inspection = None
            described = []
            for number, node in enumerate(nodes_with_cards(self._book.snapshot()), 1):
                described.append(messages.encode_json(describe_node(node)))
                if number % _NODES_AT_ONCE == 0:
                    await asyncio.sleep(0)
            return b'{"nodes":[' + b",".join(described) + b"]}"

    def _inspect_one(self, name: str) -> Answer:
        described = inspect_node(self._book.snapshot(), name)
        return Answer(404 if "error" in described else 200, JSON, messages.encode_json(described))

    def _explain(self, namespace: str, name: str) -> Answer:
        found = self._verbs.explain(namespace, name)
        if found is None:
            unknown = {"error": f"no scheduler has asked for a card for pod {namespace}/{name} lately"}
            return Answer(404, JSON, messages.encode_json(unknown))
        return Answer(200, JSON, messages.encode_json(found))


async def _awaited(answer: Awaitable[bytes | Answer], request: HttpRequest) -> Answer:
    try:
        found = await answer
        return found if isinstance(found, Answer) else Answer(200, JSON, found)
    except Exception:
        return _failed(request)


def _failed(request: HttpRequest) -> Answer:
    _LOG.exception("failed method=%s path=%r", request.method, request.path)
    return FAILED
