"""Real local servers for tests: an ASGI application on uvicorn, and a small API server that remembers what it was asked."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2

from clusters.processes.http_server import HttpServer

STATUS_OF = {404: "NotFound", 409: "Conflict", 410: "Expired", 500: "InternalError"}


async def until(condition: Callable[[], object], seconds: float = 300) -> None:
    """Wait for a condition of this process; the limit is against hangs."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  # a condition over code that has no event for it
            await asyncio.sleep(0.005)


def plain_http(url: str = "", **more: Any) -> httpx2.AsyncClient:
    """A client without TLS: any other reads all authorities that the machine trusts first, which takes 40 ms."""
    return httpx2.AsyncClient(base_url=url, trust_env=False, verify=False, **{"timeout": 300, **more})


@contextlib.asynccontextmanager
async def serve(app: Any) -> AsyncIterator[str]:
    """Serve the application on a free port of loopback; its URL."""
    server = HttpServer(app)
    try:
        yield f"http://127.0.0.1:{await server.listen()}"
    finally:
        await server.end()


@dataclass
class StubApi:
    """A small API server: pods and nodes as given, watches that stay silent, bindings applied, every call remembered.

    ``fault`` may answer a call before it does: (status, body) or ``"hang"``, or None for business as usual.
    """

    nodes: list[dict[str, Any]] = field(default_factory=list)
    pods: list[dict[str, Any]] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    fault: Callable[[str, str], Any] = lambda method, path: None
    events: list[dict[str, Any]] = field(default_factory=list)
    config_maps: dict[str, dict[str, str]] = field(default_factory=dict)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        method, path, query = scope["method"], scope["path"], scope["query_string"].decode()
        call = {"method": method, "path": path, "query": query, "body": json.loads(body) if body else None}
        call["content_type"] = dict(scope["headers"]).get(b"content-type", b"").decode()
        self.calls.append(call)
        if "watch=1" in query:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"", "more_body": True})
            await self._until_gone(receive)
            return
        answer = self.fault(method, path)
        if answer == "hang":
            await self.released.wait()
            answer = None
        status, document = answer or self.answer(method, path, query, call["body"])
        text = json.dumps(document).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(text)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": text})

    async def _until_gone(self, receive: Any) -> None:
        """Wait until the client has closed its connection."""
        while (await receive())["type"] != "http.disconnect":
            pass

    def pod(self, namespace: str, name: str) -> dict[str, Any] | None:
        """The pod of that name."""
        named = (pod for pod in self.pods if pod["metadata"]["name"] == name)
        return next((pod for pod in named if pod["metadata"]["namespace"] == namespace), None)

    def answer(self, method: str, path: str, query: str, body: Any) -> tuple[int, Any]:
        """Business as usual."""
        parts = path.strip("/").split("/")
        if path == "/api/v1/nodes":
            return 200, {"metadata": {"resourceVersion": "1"}, "items": self.nodes}
        if path == "/api/v1/pods":
            node, *others = query.partition("spec.nodeName%3D")[2].partition("&")[0].split("%2C")
            left_out = {other.removeprefix("status.phase%21%3D") for other in others}
            pods = [pod for pod in self.pods if not node or pod["spec"].get("nodeName") == node]
            pods = [pod for pod in pods if pod.get("status", {}).get("phase") not in left_out]
            return 200, {"metadata": {"resourceVersion": "1"}, "items": pods}
        if path.endswith("/events"):
            self.events.append(body)
            return 201, body
        if parts[4:5] == ["configmaps"] and len(parts) > 5:
            data = self.config_maps.get(parts[5])
            return (200, {"data": data}) if data is not None else status(404, f'configmaps "{parts[5]}" not found')
        if path.endswith("/configmaps"):
            return 200, {"metadata": {"resourceVersion": "1"}, "items": []}
        if parts[:3] == ["api", "v1", "nodes"]:
            return self._node(method, parts[3], body)
        if parts[0] == "apis":
            # Nothing of the other groups is there.
            return 200, {"metadata": {"resourceVersion": "1"}, "items": []}
        return self._pod(method, parts[3], parts[5], parts[6:], body)

    def _node(self, method: str, name: str, body: Any) -> tuple[int, Any]:
        """Read or patch a node."""
        node = next((node for node in self.nodes if node["metadata"]["name"] == name), None)
        if node is None:
            return status(404, f'nodes "{name}" not found')
        if method == "PATCH":
            annotations = node["metadata"].setdefault("annotations", {})
            annotations.update(body.get("metadata", {}).get("annotations", {}))
            for name in [name for name, text in annotations.items() if text is None]:
                del annotations[name]
            for part, amounts in body.get("status", {}).items():
                node.setdefault("status", {}).setdefault(part, {}).update(amounts)
        return 200, node

    def _pod(self, method: str, namespace: str, name: str, rest: list[str], body: Any) -> tuple[int, Any]:
        """Read, patch or bind a pod."""
        pod = self.pod(namespace, name)
        if pod is None:
            return status(404, f'pods "{name}" not found')
        if rest == ["binding"]:
            if pod["spec"].get("nodeName"):
                return status(409, f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"')
            pod["spec"]["nodeName"] = body["target"]["name"]
            pod["metadata"].setdefault("annotations", {}).update(body["metadata"].get("annotations", {}))
            return 201, {"kind": "Status", "status": "Success"}
        return patch(pod, body["metadata"]) if method == "PATCH" else (200, pod)


def patch(pod: dict[str, Any], wanted: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Merge annotations as a patch does: null removes one. Refused for another uid or an older version."""
    metadata = pod["metadata"]
    if wanted.get("uid", metadata.get("uid")) != metadata.get("uid"):
        return status(422, "metadata.uid: field is immutable")
    if wanted.get("resourceVersion", metadata.get("resourceVersion")) != metadata.get("resourceVersion"):
        return status(
            409, "the object has been modified; please apply your changes to the latest version and try again"
        )
    merged = {**metadata.get("annotations", {}), **wanted["annotations"]}
    metadata["annotations"] = {name: value for name, value in merged.items() if value is not None}
    if "resourceVersion" in metadata:
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1_000_000)
    return 200, pod


def status(code: int, message: str) -> tuple[int, dict[str, Any]]:
    """A refusal."""
    return code, {
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": STATUS_OF.get(code, ""),
        "message": message,
    }
