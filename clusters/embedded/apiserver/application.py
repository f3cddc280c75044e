"""The API server as an ASGI application: which verb a request is, and what it answers.

Everything but a log is answered without waiting for anything, so that a request sees one state of the store. Nothing
that a client sends ends the server: what is wrong is refused with a ``Status``, and a mistake of ours is a 500.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from clusters.api.resources import NAMESPACES
from clusters.embedded.apiserver.api_objects import without_nulls
from clusters.embedded.apiserver.api_routes import PROCESS_SUBRESOURCES, Route, route_of
from clusters.embedded.apiserver.api_verbs import Verbs
from clusters.embedded.apiserver.authorization import (
    ANONYMOUS,
    Authenticator,
    Authorizer,
    User,
    attributes_of,
    forbidden,
)
from clusters.embedded.apiserver.discovery import about, nothing, review
from clusters.embedded.apiserver.reads import PodLogs, Watches, aged, list_objects
from clusters.embedded.apiserver.refusals import (
    RefusalError,
    bad_request,
    internal,
    method_not_allowed,
    no_such_path,
    not_imitated,
)
from clusters.embedded.apiserver.requests import (
    Answer,
    Message,
    Receive,
    Request,
    Send,
    headers_of,
    json_answer,
    read_request,
    target_of,
)
from clusters.embedded.apiserver.service_accounts import ServiceAccountTokens
from clusters.embedded.apiserver.tables import shown, wants_table
from clusters.embedded.apiserver.validation_policies import ValidationPolicies
from clusters.embedded.apiserver.writes import Writes

logger = logging.getLogger(__name__)

# Where the HTTP server leaves the client's certificate in the state of a connection.
CERTIFICATE: Final = "certificate"

_HEADERS: Final = ((b"cache-control", b"no-cache, private"),)

Verb = Callable[[Request, Route], Answer]


class ApiServer:
    """The application."""

    def __init__(
        self,
        writes: Writes,
        watches: Watches,
        logs: PodLogs,
        access: tuple[Authenticator, Authorizer],
        tokens: ServiceAccountTokens,
        disturbances: Disturbances,
    ) -> None:
        self.user = ANONYMOUS
        """The user of the last request, so of each change that is made now: a verb waits for nothing."""
        self._authenticator, self._authorizer = access
        self._tokens = tokens
        self._disturbances = disturbances
        self._writes = writes
        self._watches = watches
        self._logs = logs
        verbs = Verbs(writes, ValidationPolicies(writes.store, self._authorizer))
        self._collection: dict[str, Verb] = {
            "GET": self._list_or_watch,
            "POST": verbs.create,
            "DELETE": verbs.delete_collection,
        }
        self._object: dict[str, Verb] = {
            "GET": verbs.get,
            "PUT": verbs.replace,
            "PATCH": verbs.patch,
            "DELETE": verbs.delete,
        }
        self._subresources: dict[str, dict[str, Verb]] = {
            "status": {"GET": verbs.get, "PUT": verbs.replace, "PATCH": verbs.patch},
            "finalize": {"PUT": verbs.replace},
            "binding": {"POST": verbs.bind},
            "eviction": {"POST": verbs.evict},
            "token": {"POST": self._issue_token},
            "scale": {"GET": verbs.get_scale, "PUT": verbs.replace_scale, "PATCH": verbs.patch_scale},
        }

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            request = await read_request(scope, receive, self._user(scope))
            answer = await self._disturbances.answer(request, self._answer)
        except RefusalError as refusal:
            answer = refused(refusal)
        except RecursionError:
            answer = json_answer(bad_request("the body of the request is nested too deeply").status(), 400)
        except Exception as error:
            logger.exception("request failed method=%s path=%s", scope["method"], scope["path"])
            answer = json_answer(internal(repr(error)).status(), 500)
        await send_answer(answer, receive, send)

    def _user(self, scope: Message) -> User:
        """The user of the request, before any of it is looked at. Raises RefusalError (400, 401, 403)."""
        certificate = scope.get("state", {}).get(CERTIFICATE)
        user = self._authenticator.user_of(headers_of(scope), certificate)
        attributes = attributes_of(scope["method"], *target_of(scope))
        if not self._authorizer.allows(user, attributes):
            raise forbidden(user, attributes)
        return user

    async def _answer(self, request: Request) -> Answer:
        path = request.path.rstrip("/") or "/"
        answer = about(path) or review(request, self._authorizer, self._writes.now)
        if answer is not None:
            return answer
        route = route_of(path)
        if route is None:
            if answer := nothing(path):
                return answer
            raise no_such_path()
        as_table = wants_table(request) and request.method == "GET"
        if route.subresource == "log":
            return await self._read_log(request, route)
        if route.subresource in PROCESS_SUBRESOURCES:
            raise not_imitated(f"{route.subresource}: no process runs in a simulated container")
        verb = self._verbs(route).get(request.method)
        if verb is None:
            raise method_not_allowed()
        self.user = request.user
        answer = verb(request, route)
        return shown(request, answer, self._writes.clock) if as_table else warned(answer, request.warnings)

    async def _read_log(self, request: Request, route: Route) -> Answer:
        if request.method != "GET":
            raise method_not_allowed()
        return await self._logs.read(
            self._writes.get(route.resource, route.namespace or "", route.name or "").item, request
        )

    def _verbs(self, route: Route) -> dict[str, Verb]:
        if route.subresource is not None:
            return self._subresources[route.subresource]
        if route.name is not None:
            return self._object
        # Objects are created in one namespace, not in all of them.
        if route.resource.namespaced and route.namespace is None:
            return {"GET": self._list_or_watch}
        # A client that wants all namespaces gone must delete each.
        if route.resource == NAMESPACES:
            return {method: verb for method, verb in self._collection.items() if method != "DELETE"}
        return self._collection

    def _list_or_watch(self, request: Request, route: Route) -> Answer:
        if request.is_set("watch"):
            return Answer(self._watches.start(request, route))
        return Answer(list_objects(self._writes.store, request, route))

    def _issue_token(self, request: Request, route: Route) -> Answer:
        body = without_nulls(request.object())
        return json_answer(self._tokens.issue(self._writes, route.namespace or "", route.name or "", body), 201)


def refused(refusal: RefusalError) -> Answer:
    """The answer that a refusal is."""
    seconds = (refusal.details or {}).get("retryAfterSeconds")
    headers = ((b"retry-after", str(seconds).encode()),) if seconds else ()
    return replace(json_answer(refusal.status(), refusal.code), headers=headers)


async def send_answer(answer: Answer, receive: Receive, send: Send) -> None:
    """Send an answer; one that comes in pieces ends when the client is gone."""
    headers = [*_HEADERS, *answer.headers, (b"content-type", answer.content_type.encode())]
    if isinstance(answer.body, bytes):
        headers.append((b"content-length", str(len(answer.body)).encode()))
        await send({"type": "http.response.start", "status": answer.code, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})
        return
    await send({"type": "http.response.start", "status": answer.code, "headers": headers})
    pump = asyncio.create_task(_pump(answer, send))
    gone = asyncio.create_task(_until_gone(receive))
    try:
        await asyncio.wait((pump, gone), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (pump, gone):
            task.cancel()
        outcomes = await asyncio.gather(pump, gone, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome


async def _pump(answer: Answer, send: Send) -> None:
    assert not isinstance(answer.body, bytes)
    # The headers go out with the first piece; a watch of something that does not change yet must answer immediately.
    await send({"type": "http.response.body", "body": b"", "more_body": True})
    async for piece in answer.body:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def warned(answer: Answer, warnings: list[str]) -> Answer:
    """An answer with warnings for the user, as ``kubectl`` prints them."""
    quoted = [text.replace("\\", "\\\\").replace('"', '\\"') for text in warnings]
    headers = tuple((b"warning", f'299 - "{text}"'.encode()) for text in quoted)
    return replace(answer, headers=(*answer.headers, *headers)) if headers else answer


_ACCOUNTS: Final = "system:serviceaccount:"
_MOST_ON_A_PAGE: Final = 3
# Seconds by which a Binding is late at most.
_LATEST: Final = 1.0
_TIMED_OUT: Final = (504, "Timeout", "the request timed out; it is not known whether it took effect")
_UNAVAILABLE: Final = (503, "ServiceUnavailable", "the server is currently unable to handle the request")

CarryOut = Callable[[Request], Awaitable[Answer]]


class Disturbances:
    """Disturbs the programs that the server serves, as real ones do when they are overloaded, restarted or behind a proxy.

    An answer is lost, a Binding takes effect after its answer, a change is refused, a list has short pages, and the history of a
    list is gone between two of them. Only ServiceAccounts feel it: kubelets, the scheduler and the cases do not. ``chance`` is that
    of each disturbance, for each request that may have it.
    """

    def __init__(self, chance: float, rng: random.Random) -> None:
        self.chance = chance
        self.refused_next = ""
        """If not empty: the next POST to a path with this ending is refused, whatever the chance is."""
        self.bindings_land = asyncio.Event()
        """As long as it is not set, each Binding is late, and waits for it."""
        self.bindings_land.set()
        self._rng = rng
        self._late: set[asyncio.Task[None]] = set()

    async def answer(self, request: Request, carry_out: CarryOut) -> Answer:
        """The request's answer. Raises RefusalError."""
        if not request.user.name.startswith(_ACCOUNTS):
            return await carry_out(request)
        if self.refused_next and request.method == "POST" and request.path.endswith(self.refused_next):
            self.refused_next = ""
            raise RefusalError(*_UNAVAILABLE)
        is_binding = request.path.endswith("/binding")
        is_held = is_binding and not self.bindings_land.is_set()
        if not self.chance and not is_held:
            return await carry_out(request)
        if request.method == "GET":
            self._cut(request)
            return await carry_out(request)
        if is_held or self._happens():
            if not is_binding:
                raise RefusalError(*_UNAVAILABLE)
            task = asyncio.create_task(self._carry_out_late(request, carry_out))
            self._late.add(task)
            task.add_done_callback(self._late.discard)
            raise RefusalError(*_TIMED_OUT)
        answer = await carry_out(request)
        if self._happens():
            raise RefusalError(*_TIMED_OUT)
        return answer

    async def close(self) -> None:
        """Wait for what is late: a server that ends carries out what it has begun."""
        await asyncio.gather(*self._late, return_exceptions=True)

    def _happens(self) -> bool:
        return self._rng.random() < self.chance

    def _cut(self, request: Request) -> None:
        """Make the page of a list short, which a server may do; or ask for one after the first too late."""
        if int(request.params.get("limit") or 0) > _MOST_ON_A_PAGE:
            request.params["limit"] = str(_MOST_ON_A_PAGE)
        if (token := request.params.get("continue")) and self._happens():
            request.params["continue"] = aged(token)

    async def _carry_out_late(self, request: Request, carry_out: CarryOut) -> None:
        await asyncio.sleep(self._rng.uniform(0, _LATEST))
        await self.bindings_land.wait()
        with contextlib.suppress(RefusalError):
            await carry_out(request)
