"""Real local servers for tests: an ASGI application on uvicorn, and a small API server that remembers what it was asked."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import re
import ssl
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from json import dumps
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from clusters.api.connection import Answer, Connection
from clusters.processes.http_server import HttpServer
from gpushare.kube.http_pool import HttpPool, Login

Object = dict[str, Any]

STATUS_OF = {404: "NotFound", 409: "Conflict", 410: "Expired", 500: "InternalError"}


async def until(condition: Callable[[], object], what: str = "condition", seconds: float = 300) -> None:
    """Wait for a condition of this process; the limit is against hangs."""
    try:
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110  # a condition over code that has no event for it
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"never came: {what}") from None


class Caller(Connection):
    """A client that calls a server by its methods."""

    async def get(self, path: str, **more: Any) -> Answer:
        """The answer to a GET."""
        return await self.request("GET", path, **more)

    async def post(self, path: str, *, json: Any = None, **more: Any) -> Answer:
        """The answer to a POST, with a document as JSON if there is one."""
        return await self.request("POST", path, **more if json is None else {"content": dumps(json), **more})


def plain_http(url: str = "") -> Caller:
    """A client without TLS."""
    return Caller(url, headers={"content-type": "application/json"})


async def anonymous() -> list[tuple[str, str]]:
    """The login of a client without credentials."""
    return []


@contextlib.asynccontextmanager
async def http_pool(url: str, timeout_seconds: float = 300, login: Login = anonymous) -> AsyncIterator[HttpPool]:
    """The programs' own connections, without a certificate that is trusted."""
    pool = HttpPool(url, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), login, timeout_seconds=timeout_seconds)
    try:
        yield pool
    finally:
        await pool.close()


@contextlib.asynccontextmanager
async def serve(app: Any) -> AsyncIterator[str]:
    """Serve the application on a free port of loopback; its URL."""
    server = HttpServer(app)
    try:
        yield f"http://127.0.0.1:{await server.listen()}"
    finally:
        await server.end()


def kubeconfig(folder: Path, url: str) -> str:
    """The path of a kubeconfig for that API server."""
    document = {
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "users": [{"name": "c", "user": {}}],
        "current-context": "c",
    }
    (folder / "kubeconfig").write_text(json.dumps(document))
    return str(folder / "kubeconfig")


class Watch(NamedTuple):
    """A watch that stands: what it is of, and its events to come; None ends it."""

    plural: str
    selector: str
    news: asyncio.Queue[Object | None]


@dataclass
class StubApi:
    """A small API server: objects by their plural, watches that tell what changes, and every call remembered.

    What a test changes in the objects itself, no watch tells; nor what happens while the server is ``deaf``.
    ``fault`` may answer a call that is no watch: (status, body), or ``"hang"`` to wait for ``released`` before it is done,
    or None for business as usual.
    """

    nodes: list[Object] = field(default_factory=list)
    pods: list[Object] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    fault: Callable[[str, str], Any] = lambda method, path: None
    events: list[Object] = field(default_factory=list)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    page: int = 10_000
    deaf: bool = False
    watches: list[Watch] = field(default_factory=list)
    history: list[tuple[int, str, Object]] = field(default_factory=list)
    gone_from: int = 0
    # Later than any version that a test gives to its objects.
    version: int = 10**15

    def __post_init__(self) -> None:
        self.items: defaultdict[str, list[Object]] = defaultdict(list)
        self.items |= {"nodes": self.nodes, "pods": self.pods, "events": self.events}

    def find(self, plural: str, name: str, namespace: str | None = None) -> Object | None:
        """The object of that name, in any namespace or in that one."""
        found = (one for one in self.items[plural] if one["metadata"]["name"] == name)
        return next((one for one in found if namespace in (None, one["metadata"].get("namespace", ""))), None)

    def pod(self, name: str) -> Object:
        """The pod of that name."""
        found = self.find("pods", name)
        assert found is not None
        return found

    def put(self, item: Object) -> None:
        """Make it so; an object of another uid under that name is gone before."""
        item, plural = copy.deepcopy(item), item["kind"].lower() + "s"
        name = item["metadata"]["name"]
        there = self.find(plural, name, item["metadata"].get("namespace", ""))
        if there and there["metadata"].get("uid") == item["metadata"].setdefault("uid", f"uid-{name}"):
            there.clear()
            there.update(item)
            self._tell("MODIFIED", plural, there)
            return
        if there:
            self.delete(plural, name)
        self._create(plural, item)

    def delete(self, plural: str, name: str, grace: int = 0) -> None:
        """As a user would: with a grace the object stays until its kubelet has ended it."""
        item = self.find(plural, name)
        assert item is not None
        if grace:
            item["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": grace}
        else:
            self.items[plural].remove(item)
        self._tell("MODIFIED" if grace else "DELETED", plural, item)

    def disconnect(self, *, forget: bool) -> None:
        """All watches break; with ``forget`` a client that comes again with an old version gets 410."""
        if forget:
            self.gone_from = self.version + 1
        for watch in self.watches:
            watch.news.put_nowait(None)

    def bookmark(self) -> None:
        """Watches get bookmarks."""
        for watch in self.watches:
            watch.news.put_nowait({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self.version)}}})

    def _tell(self, kind: str, plural: str, item: Object) -> None:
        """The object has a new version, and watches hear of it."""
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        if self.deaf:
            return
        event = {"type": kind, "object": copy.deepcopy(item)}
        self.history.append((self.version, plural, event))
        for watch in self.watches:
            if watch.plural == plural and selected(item, watch.selector):
                watch.news.put_nowait(event)

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body")
        method, path, query = scope["method"], scope["path"], scope["query_string"].decode()
        call = {"method": method, "path": path, "query": query, "body": json.loads(body) if body else None}
        call["content_type"] = dict(scope["headers"]).get(b"content-type", b"").decode()
        self.calls.append(call)
        if "watch=" in query:
            await self._watch(path.rpartition("/")[2], dict(parse_qsl(query)), receive, send)
            return
        fault = self.fault(method, path)
        if fault == "hang":
            await self.released.wait()
        code, document = fault if isinstance(fault, tuple) else self.answer(method, path, query, call["body"])
        text = json.dumps(document).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(text)).encode())]
        await send({"type": "http.response.start", "status": code, "headers": headers})
        await send({"type": "http.response.body", "body": text})

    async def _watch(self, plural: str, query: dict[str, str], receive: Any, send: Any) -> None:
        async def say(event: Object | None, *, more: bool = True) -> None:
            line = json.dumps(event).encode() + b"\n" if event else b""
            await send({"type": "http.response.body", "body": line, "more_body": more})

        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        version, selector = int(query.get("resourceVersion", self.version)), query.get("fieldSelector", "")
        if version < self.gone_from:
            await say({"type": "ERROR", "object": status(410, "too old")[1]}, more=False)
            return
        await say(None)
        watch = Watch(plural, selector, asyncio.Queue())
        self.watches.append(watch)
        for at, of, event in self.history:
            if at > version and of == plural and selected(event["object"], selector):
                watch.news.put_nowait(event)
        leaving = asyncio.create_task(_until_gone(receive))
        leaving.add_done_callback(lambda _: watch.news.put_nowait(None))
        while (happened := await watch.news.get()) is not None:
            await say(happened)
        self.watches.remove(watch)
        leaving.cancel()
        await say(None, more=False)

    def answer(self, method: str, path: str, query: str, body: Any) -> tuple[int, Any]:
        """Business as usual."""
        parts = path.strip("/").split("/")[2 if path.startswith("/api/") else 3 :]
        namespace, parts = (parts[1], parts[2:]) if parts[0] == "namespaces" and len(parts) > 2 else ("", parts)
        plural, *rest = parts
        if not rest and method == "GET":
            return self._list(self.items[plural], namespace, dict(parse_qsl(query)))
        name = rest[0] if rest else body["metadata"]["name"]
        item = self.find(plural, name, namespace)
        if not rest:
            return (409, {"reason": "AlreadyExists"}) if item else self._create(plural, body)
        if item is None:
            return status(404, f'{plural} "{name}" not found')
        if rest[1:] == ["eviction"]:
            return self._change("DELETE", plural, item, body["deleteOptions"])
        return (200, item) if method == "GET" else self._change(method, plural, item, body or {})

    def _create(self, plural: str, item: Object) -> tuple[int, Object]:
        item["metadata"].setdefault("uid", f"uid-{item['metadata']['name']}")
        self.items[plural].append(item)
        self._tell("ADDED", plural, item)
        return 201, item

    def _change(self, method: str, plural: str, item: Object, body: Object) -> tuple[int, Object]:
        """Patch, bind or delete an object; refused for another uid or an older version."""
        metadata = item["metadata"]
        wanted = body.get("preconditions" if method == "DELETE" else "metadata", {})
        if wanted.get("uid", metadata.get("uid")) != metadata.get("uid"):
            return status(422 if method == "PATCH" else 409, "metadata.uid: field is immutable")
        if wanted.get("resourceVersion", metadata.get("resourceVersion")) != metadata.get("resourceVersion"):
            return status(
                409, "the object has been modified; please apply your changes to the latest version and try again"
            )
        if method == "DELETE":
            self.items[plural].remove(item)
            self._tell("DELETED", plural, item)
            return 200, item
        if method == "POST":
            if there := item["spec"].get("nodeName"):
                return status(409, f'pod {metadata["name"]} is already assigned to node "{there}"')
            body = {
                "spec": {"nodeName": body["target"]["name"]},
                "metadata": {"annotations": wanted.get("annotations", {})},
            }
        merge(item, body)
        self._tell("MODIFIED", plural, item)
        return (201, {"kind": "Status", "status": "Success"}) if method == "POST" else (200, item)

    def _list(self, items: list[Object], namespace: str, query: dict[str, str]) -> tuple[int, Object]:
        """A page of a list; it begins where the last one ended, as nothing changes within a test's list."""
        found = [one for one in items if selected(one, query.get("fieldSelector", ""))]
        found = [one for one in found if namespace in ("", one["metadata"].get("namespace", ""))]
        start = int(query.get("continue") or 0)
        end = start + self.page
        metadata = {"resourceVersion": str(self.version), "continue": str(end) if end < len(found) else ""}
        return 200, {"metadata": metadata, "items": found[start:end]}


async def _until_gone(receive: Any) -> None:
    """Wait until the client has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


def selected(item: Object, selector: str) -> bool:
    """Whether an object is of a field selector."""
    for path, differs, value in re.findall(r"([^,=!]+)(!?)=([^,]*)", selector):
        found: Any = item
        for name in path.split("."):
            found = (found or {}).get(name)
        if ((found or "") == value) is bool(differs):
            return False
    return True


def merge(item: Object, patch: Object) -> None:
    """A strategic merge as far as it is used here: null deletes, maps merge, conditions and addresses merge by their type."""
    for name, value in patch.items():
        if value is None:
            item.pop(name, None)
        elif isinstance(value, dict):
            item[name] = item.get(name) or {}
            merge(item[name], value)
        elif name in ("conditions", "addresses"):
            known = {one["type"]: one for one in item.get(name, [])}
            for one in value:
                merge(known.setdefault(one["type"], {}), one)
            item[name] = list(known.values())
        else:
            item[name] = value


def status(code: int, message: str) -> tuple[int, dict[str, Any]]:
    """A refusal."""
    return code, {
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": STATUS_OF.get(code, ""),
        "message": message,
    }
