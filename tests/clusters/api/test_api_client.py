"""Promises of clusters.api.api_client: above all, a watch that never loses its place."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from clusters.api.api_client import ApiClient, ApiError
from clusters.api.connection import Connection
from clusters.api.resources import PODS
from tests.servers import serve, status


def pod(name: str, version: int, uid: str = "") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "d", "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata}


class Script:
    """An API server that answers lists and watches from a script; ``asked`` are the query strings of the watches."""

    def __init__(self, lists: list[Any], watches: list[Any]) -> None:
        self.lists, self.watches = lists, watches
        self.asked: list[str] = []
        self.idle = asyncio.Event()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        query = scope["query_string"].decode()
        while (await receive()).get("more_body"):
            pass
        if "watch=1" not in query:
            code, document = self.lists.pop(0)
            await self._answer(send, code, [document])
            return
        self.asked.append(query)
        if not self.watches:
            self.idle.set()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"", "more_body": True})
            while (await receive())["type"] != "http.disconnect":
                pass
            return
        code, documents = self.watches.pop(0)
        await self._answer(send, code, documents)

    async def _answer(self, send: Any, code: int, documents: list[Any]) -> None:
        await send({"type": "http.response.start", "status": code, "headers": []})
        lines = [one if isinstance(one, bytes) else json.dumps(one).encode() + b"\n" for one in documents]
        await send({"type": "http.response.body", "body": b"".join(lines)})


def listed(version: int, *pods: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    return 200, {"metadata": {"resourceVersion": str(version)}, "items": list(pods)}


def event(kind: str, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": item}


@asynccontextmanager
async def client(app: Any, patience: float = 0.0) -> AsyncIterator[ApiClient]:
    async with serve(app) as url, ApiClient(Connection(url), patience=patience) as api:
        yield api


async def seen(script: Script) -> list[tuple[str, str]]:
    """The events for a consumer of the watch until the script is played."""
    found: list[tuple[str, str]] = []
    async with client(script) as api:

        async def consume() -> None:
            async for kind, item in api.watch(PODS):
                found.append((kind, item["metadata"]["name"] if item else ""))

        consuming = asyncio.create_task(consume())
        await asyncio.wait(
            [consuming, asyncio.create_task(script.idle.wait())], timeout=30, return_when=asyncio.FIRST_COMPLETED
        )
        consuming.cancel()
        await asyncio.wait([consuming])
        if not consuming.cancelled():
            consuming.result()
    return found


@pytest.mark.parametrize(
    ("gone", "asked"),
    [
        ((410, [status(410, "too old")[1]]), []),
        ((200, [event("ERROR", status(410, "too old")[1])]), []),
        ((503, [status(503, "no")[1]]), [listed(4)]),
    ],
    ids=["as a status", "as an event", "as a restored version"],
)
async def test_lost_history_means_a_new_list_and_its_differences(gone: Any, asked: list[Any]) -> None:
    """An object that vanished in between is DELETED, a re-created pod is another one, an unchanged one is not shown again."""
    first = listed(5, pod("a", 1), pod("b", 2), pod("same", 3), pod("web-0", 4, "old"))
    second = listed(20, pod("a", 11), pod("same", 3), pod("web-0", 12, "new"), pod("c", 13))
    script = Script([first, *asked, second], [gone])
    found = await seen(script)

    assert found[5:] == [("DELETED", "b"), ("DELETED", "web-0"), ("MODIFIED", "a"), ("ADDED", "web-0"), ("ADDED", "c")]


async def test_a_server_that_fails_is_asked_again() -> None:
    """5xx of a list or of a watch; half a line is dropped, its event comes again."""
    half = json.dumps(event("ADDED", pod("a", 6))).encode()[:20]
    script = Script(
        [status(500, "no"), *[listed(5)] * 3], [status(503, "no"), (200, [half]), (200, [event("ADDED", pod("a", 6))])]
    )
    script.watches[0] = (503, [status(503, "no")[1]])

    assert await seen(script) == [("SYNCED", ""), ("ADDED", "a")]


async def test_a_client_with_patience_asks_again() -> None:
    """It sends a request that met 5xx or 429 again; a client without patience sees the first, and both see a refusal."""
    answers = [status(503, "restarts"), status(429, "later"), listed(5, pod("a", 1))]
    async with client(Script(list(answers), []), patience=60) as patient:
        assert [one["metadata"]["name"] for one in await patient.list(PODS)] == ["a"]
    async with client(Script(list(answers), [])) as api:
        with pytest.raises(ApiError, match="restarts"):
            await api.list(PODS)
    async with client(Script([status(403, "may not")], []), patience=60) as patient:
        with pytest.raises(ApiError, match="may not"):
            await patient.list(PODS)
