"""Runs one history on one side, one request after the other on one connection, and keeps what was answered and watched."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

import msgspec

from clusters.api.connection import Connection
from e2e.parity.histories.history_samples import KINDS
from e2e.parity.histories.operations import (
    END,
    JSON,
    MERGE_PATCH,
    WATCH,
    History,
    Operation,
    UnresolvedError,
    Until,
    resolve,
    resolve_until,
)

# A watch that has not come to its end by then is one that lost its last event, in seconds.
PATIENCE: Final = 15.0
_WHOLE: Final = "whole"
_NAMESPACES: Final = "/api/v1/namespaces"


class Answer(msgspec.Struct):
    """The answer to one request; code 0: it was not sent, its reference was to nothing."""

    code: int
    body: Any = None


class Stream(msgspec.Struct):
    """The events of one watch. ``ended``: by its last object, by the server, by a refusal, or (``silent``) not at all."""

    events: list[Any] = []
    ended: str = "silent"
    refusal: Answer | None = None


class Record(msgspec.Struct):
    """All that one side did with one history; ``whole`` are the watches of everything, by kind."""

    namespace: str
    answers: dict[int, Answer] = {}
    watches: dict[int, Stream] = {}
    whole: dict[str, Stream] = {}


async def replay(http: Connection, namespace: str, history: History) -> Record:
    """Replay a history in a new namespace of this name; nodes of the history begin with that name too."""
    run = _Run(http, namespace)
    try:
        await run.prepare()
        for operation in history:
            await run.step(operation)
        await run.end([each.until for each in history if each.until is not None])
        return run.record
    finally:
        await run.close()


class _Run:
    def __init__(self, http: Connection, namespace: str) -> None:
        self.record = Record(namespace)
        self._http = http
        self._namespace = namespace
        self._readers: list[asyncio.Task[None]] = []

    async def prepare(self) -> None:
        """A namespace as its controllers would furnish it, and one watch of each kind that sees every write."""
        name = {"metadata": {"name": self._namespace}}
        await self._send("POST", _NAMESPACES, name)
        # Pods are only admitted with it; without controllers nothing else makes it.
        await self._send("POST", f"{_NAMESPACES}/{self._namespace}/serviceaccounts", {"metadata": {"name": "default"}})
        for kind in KINDS:
            listed = await self._send("GET", kind.path(self._namespace))
            params = {"resourceVersion": listed.body["metadata"]["resourceVersion"]}
            self.record.whole[kind.key] = await self._watch(kind.path(self._namespace), params, _WHOLE)

    async def step(self, operation: Operation) -> None:
        """One operation; it is answered before the next one is sent."""
        try:
            request = resolve(operation, self._namespace, self._answered)
        except UnresolvedError:
            self.record.answers[operation.id] = Answer(0)
            return
        await self._settle(request)
        if request.method == WATCH:
            self.record.watches[operation.id] = await self._watch(request.path, request.params, "")
            return
        answer = await self._send(
            request.method, request.path, request.body, params=request.params, content_type=request.content_type
        )
        if request.method == "DELETE" and isinstance(answer.body, dict) and "items" in answer.body:
            # The deleted objects are listed first, by the real server from its cache, which may not know of other kinds' writes.
            answer.body["metadata"].pop("resourceVersion", None)
        self.record.answers[operation.id] = answer

    async def _settle(self, request: Operation) -> None:
        """A question that may be answered from a cache is asked only when the cache holds all writes.

        A list of no version is the newest state, and a server that answers it from its cache lets the cache catch up.
        """
        from_cache = request.method == WATCH or (request.method == "GET" and "resourceVersion" in request.params)
        if from_cache and request.params.get("resourceVersionMatch") != "Exact":
            kinds = [kind.path(self._namespace) for kind in KINDS] + [kind.everywhere() for kind in KINDS]
            path = next(path for path in kinds if f"{request.path}/".startswith(f"{path}/"))
            await self._send("GET", path, params={"labelSelector": "in=nothing"})

    async def end(self, untils: list[Until]) -> None:
        """Write the last objects, and read every watch up to its own."""
        written: list[Until] = []
        for each in untils:
            until = resolve_until(each, self._namespace)
            if until not in written:
                written.append(until)
                await self._write_end(until)
        for kind in KINDS:
            body = kind.sample(self._namespace, "end-of-all")
            body["metadata"]["labels"] = {END: _WHOLE}
            await self._send("POST", kind.path(self._namespace), body)
        await asyncio.wait(self._readers, timeout=PATIENCE)

    async def close(self) -> None:
        """Stop reading; take the nodes away, which are all that others could see."""
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        nodes = await self._send("GET", "/api/v1/nodes")
        for node in nodes.body.get("items") or []:
            path = f"/api/v1/nodes/{node['metadata']['name']}"
            if node["metadata"].get("finalizers"):
                await self._send("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH)
            await self._send("DELETE", path)

    def _answered(self, number: int) -> Any:
        answer = self.record.answers.get(number)
        return answer.body if answer is not None and answer.code < 300 else None

    async def _write_end(self, until: Until) -> None:
        """The object of a name that the history used takes the place of what it left."""
        path = f"{until.path}/{until.body['metadata']['name']}"
        there = await self._send("GET", path)
        if there.code == 200 and there.body["metadata"].get("finalizers"):
            await self._send("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH)
        await self._send("DELETE", path, {"gracePeriodSeconds": 0})
        await self._send("POST", until.path, until.body)
        if until.status is not None:
            await self._send("PATCH", f"{path}/status", {"status": until.status}, content_type=MERGE_PATCH)

    async def _send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: dict[str, str] | None = None,
        content_type: str = JSON,
    ) -> Answer:
        content = None if body is None else json.dumps(body).encode()
        response = await self._http.request(
            method, path, content=content, params=params, headers={"Content-Type": content_type}
        )
        return Answer(response.status_code, self._own(path, _decoded(response.content)))

    async def _watch(self, path: str, params: dict[str, str], until: str) -> Stream:
        """Open a watch, and read on while the history goes on; its headers are the proof that it is open."""
        stream = Stream()
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._readers.append(asyncio.create_task(self._read(stream, path, {**params, "watch": "1"}, until, opened)))
        await opened
        return stream

    async def _read(
        self, stream: Stream, path: str, params: dict[str, str], until: str, opened: asyncio.Future[None]
    ) -> None:
        try:
            async with self._http.stream("GET", path, params=params, silent_for=None) as response:
                if response.status_code >= 400:
                    stream.refusal = Answer(response.status_code, _decoded(await response.read()))
                    stream.ended = "refused"
                    return
                opened.set_result(None)
                async for line in response.lines():
                    if self._take(stream, path, json.loads(line), until):
                        stream.ended = "end"
                        return
                stream.ended = "closed"
        finally:
            if not opened.done():
                opened.set_result(None)

    def _take(self, stream: Stream, path: str, event: Any, until: str) -> bool:
        """Keep an event of this history; whether it was the last."""
        item = event["object"]
        if event["type"] not in ("BOOKMARK", "ERROR") and not self._is_own(path, item):
            return False
        stream.events.append(event)
        label = (item.get("metadata", {}).get("labels") or {}).get(END)
        return event["type"] != "DELETED" and label is not None and until in ("", label)

    def _own(self, path: str, body: Any) -> Any:
        """A list without the objects of others."""
        if isinstance(body, dict) and isinstance(body.get("items"), list):
            own = {**body, "items": [each for each in body["items"] if self._is_own(path, each)]}
            if not path.startswith(_NAMESPACES):
                own["metadata"] = {key: each for key, each in body["metadata"].items() if key != "remainingItemCount"}
            return own
        return body

    def _is_own(self, path: str, item: Any) -> bool:
        metadata = item.get("metadata", {})
        if path.startswith(_NAMESPACES):
            return True
        return bool(
            metadata.get("namespace") == self._namespace
            or str(metadata.get("name", "")).startswith(f"{self._namespace}-")
        )


def _decoded(content: bytes) -> Any:
    try:
        return json.loads(content) if content else None
    except ValueError:
        return content.decode(errors="replace")
