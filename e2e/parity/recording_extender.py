"""A scheduler extender on loopback that records every call as it came and gives the answers of a case."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from aiohttp import web

_MOST_BYTES: Final = 2**30


@dataclass(frozen=True, slots=True)
class Call:
    """One request; the names of its headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def verb(self) -> str:
        return self.path.rsplit("/", 1)[-1]

    @property
    def message(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the extender: ``body`` is JSON, or bytes as they are."""

    body: Any = None
    status: int = 200


Respond = Callable[[Call], Awaitable[Answer]]


def let_through(call: Call) -> Answer:
    """The filter's answer that keeps every node, in the form in which the nodes were asked about."""
    asked = call.message
    return Answer({"Nodes": asked["Nodes"], "NodeNames": asked["NodeNames"], "FailedNodes": {}, "Error": ""})


def refuse(call: Call, reason: str, *, keep: tuple[str, ...] = ()) -> Answer:
    """The filter's answer that refuses every node but ``keep`` with a reason."""
    names = names_of(call)
    failed = {name: reason for name in names if name not in keep}
    kept = [name for name in names if name in keep]
    return Answer({"Nodes": None, "NodeNames": kept, "FailedNodes": failed, "Error": ""})


def names_of(call: Call) -> list[str]:
    """The nodes that a filter or prioritize call asks about."""
    asked = call.message
    if asked["NodeNames"] is not None:
        return list(asked["NodeNames"])
    return [item["metadata"]["name"] for item in asked["Nodes"]["items"]]


class RecordingExtender:
    """``respond`` may be replaced at any time; ``calls`` holds every request."""

    def __init__(self, respond: Respond | None = None) -> None:
        self.respond: Respond
        self.on()
        if respond is not None:
            self.respond = respond
        self.calls: list[Call] = []
        self.port = 0
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """The urlPrefix for a scheduler's configuration."""
        return f"http://127.0.0.1:{self.port}/gpushare-scheduler"

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
        return [call for call in self.calls if call.verb == verb]

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=_MOST_BYTES)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        call = Call(request.method, request.path, headers, await request.read())
        self.calls.append(call)
        answer = await self.respond(call)
        body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        return web.Response(body=body, status=answer.status)
