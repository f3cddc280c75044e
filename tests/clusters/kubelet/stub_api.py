"""The least API server that a kubelet can talk to: pods, nodes and events over real HTTP, with watches.

Strategic merge is done as far as a kubelet uses it: maps merge, null deletes, conditions and addresses merge by type,
other lists replace.
"""

from __future__ import annotations

import asyncio
import copy
import json
from typing import Any
from urllib.parse import parse_qs

from clusters.api.api_client import ApiClient
from clusters.api.connection import Connection
from clusters.processes.http_server import HttpServer

Object = dict[str, Any]


class StubApi:
    """Objects by (plural, namespace, name); ``writes`` counts what the kubelet sent."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.writes: list[tuple[str, str]] = []
        self.away = False
        self.answers_patches = asyncio.Event()
        """Unset: a patch is done, and its answer waits."""
        self.answers_patches.set()
        self._history: list[tuple[str, str, Object]] = []
        self._news = asyncio.Condition()
        self._version = 0
        self._is_over = False

    async def start(self) -> ApiClient:
        self._server = HttpServer(self._app)
        url = f"http://127.0.0.1:{await self._server.listen()}"
        self.client = ApiClient(Connection(url))
        return self.client

    async def stop(self) -> None:
        await self.client.close()
        self._is_over = True
        async with self._news:
            self._news.notify_all()
        await self._server.end()

    def pod(self, name: str) -> Object:
        return self.objects["pods", "default", name]

    def phase(self, name: str) -> str:
        return str(self.objects.get(("pods", "default", name), {}).get("status", {}).get("phase", ""))

    def node(self, name: str = "n1") -> Object:
        return self.objects["nodes", "", name]

    def events(self) -> list[Object]:
        return [item for (plural, _, _), item in self.objects.items() if plural == "events"]

    async def put(self, item: Object) -> None:
        plural = item["kind"].lower() + "s"
        namespace = item["metadata"].get("namespace", "")
        item["metadata"].setdefault("uid", f"uid-{item['metadata']['name']}")
        key = (plural, namespace, item["metadata"]["name"])
        await self._emit("MODIFIED" if key in self.objects else "ADDED", key, copy.deepcopy(item))

    async def annotate(self, name: str, **annotations: str) -> None:
        item = copy.deepcopy(self.pod(name))
        item["metadata"].setdefault("annotations", {}).update(annotations)
        await self.put(item)

    async def delete(self, name: str, grace: int = 30) -> None:
        """As a user would: a bound pod stays until its kubelet has ended it, unless by force."""
        key = ("pods", "default", name)
        item = copy.deepcopy(self.objects[key])
        item["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": grace}
        await self._emit("MODIFIED" if grace else "DELETED", key, item)

    async def _emit(self, kind: str, key: tuple[str, str, str], item: Object) -> None:
        self._version += 1
        item["metadata"]["resourceVersion"] = str(self._version)
        if kind == "DELETED":
            self.objects.pop(key, None)
        else:
            self.objects[key] = item
        self._history.append((kind, key[0], copy.deepcopy(item)))
        async with self._news:
            self._news.notify_all()

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        query = {name: values[-1] for name, values in parse_qs(scope["query_string"].decode()).items()}
        parts = scope["path"].strip("/").split("/")
        parts = parts[3:] if parts[0] == "apis" else parts[2:]
        namespace = ""
        if parts[0] == "namespaces":
            namespace, parts = parts[1], parts[2:]
        if self.away:
            await self._answer(send, 503, {})
        elif scope["method"] == "GET" and "watch" in query:
            await self._watch(send, parts[0], query)
        else:
            answer = await self._handle(scope["method"], parts, namespace, query, json.loads(body or b"{}"))
            if scope["method"] == "PATCH":
                await self.answers_patches.wait()
            await self._answer(send, *answer)

    async def _handle(
        self, method: str, parts: list[str], namespace: str, query: dict[str, str], body: Object
    ) -> tuple[int, Object]:
        if method == "GET" and len(parts) == 2:
            item = self.objects.get((parts[0], namespace, parts[1]))
            return (404, {"reason": "NotFound"}) if item is None else (200, item)
        if method == "GET":
            items = [i for (plural, _, _), i in self.objects.items() if plural == parts[0] and selected(i, query)]
            return 200, {"items": items, "metadata": {"resourceVersion": str(self._version)}}
        self.writes.append((method, "/".join(parts)))
        if method == "POST":
            key = (parts[0], namespace, body["metadata"]["name"])
            body["metadata"].setdefault("uid", f"uid-{body['metadata']['name']}")
            if key in self.objects:
                return 409, {"reason": "AlreadyExists"}
            await self._emit("ADDED", key, body)
            return 201, body
        key = (parts[0], namespace, parts[1])
        if key not in self.objects:
            return 404, {"reason": "NotFound"}
        item = copy.deepcopy(self.objects[key])
        if method == "PATCH":
            merge(item, body)
            await self._emit("MODIFIED", key, item)
            return 200, item
        await self._emit("DELETED", key, item)
        return 200, item

    async def _watch(self, send: Any, plural: str, query: dict[str, str]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        seen = int(query["resourceVersion"])
        while not self._is_over:
            for kind, what, item in self._history[seen:]:
                seen += 1
                if what == plural and selected(item, query):
                    line = json.dumps({"type": kind, "object": item}).encode() + b"\n"
                    await send({"type": "http.response.body", "body": line, "more_body": True})
            async with self._news:
                if seen == len(self._history) and not self._is_over:
                    await self._news.wait()
        await send({"type": "http.response.body", "body": b""})

    @staticmethod
    async def _answer(send: Any, status: int, body: Object) -> None:
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(body).encode()})


def selected(item: Object, query: dict[str, str]) -> bool:
    """The two field selectors that a kubelet uses."""
    field, _, value = query.get("fieldSelector", "").partition("=")
    if field == "spec.nodeName":
        return bool(item["spec"].get("nodeName") == value)
    return not field or bool(item["metadata"]["name"] == value)


def merge(item: Object, patch: Object) -> None:
    for name, value in patch.items():
        if value is None:
            item.pop(name, None)
        elif isinstance(value, dict):
            merge(item.setdefault(name, {}), value)
        elif name in ("conditions", "addresses"):
            known = {one["type"]: one for one in item.get(name, [])}
            for one in value:
                merge(known.setdefault(one["type"], {}), one)
            item[name] = list(known.values())
        else:
            item[name] = value
