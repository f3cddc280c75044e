"""The API server as the reference implementations ask it: a kubeconfig, JSON over aiohttp, and a watch that starts again."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import aiohttp
import yaml

from e2e.reference.reference_pods import Object

_LOG: Final = logging.getLogger("reference implementation.api")
STRATEGIC: Final = "application/strategic-merge-patch+json"
MERGE: Final = "application/merge-patch+json"
_WATCH_SECONDS: Final = 240
_LINE_BYTES: Final = 64 * 1024 * 1024


class RefusedError(Exception):
    """The API server's status and message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Api:
    """Requests to one API server."""

    def __init__(self, session: aiohttp.ClientSession, server: str, tls: ssl.SSLContext | bool) -> None:
        self._session, self._server, self._tls = session, server.rstrip("/"), tls

    @classmethod
    @contextlib.asynccontextmanager
    async def at(cls, kubeconfig: Path) -> AsyncIterator[Api]:
        """By the kubeconfig's current context. Raises OSError and KeyError."""
        document = yaml.safe_load(kubeconfig.read_text())
        context = _named(document, "context", document["current-context"])
        cluster, user = _named(document, "cluster", context["cluster"]), _named(document, "user", context["user"])
        headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=_WATCH_SECONDS + 60)
        async with aiohttp.ClientSession(headers=headers, timeout=timeout, read_bufsize=_LINE_BYTES) as session:
            yield cls(session, cluster["server"], _tls(cluster, user))

    async def send(self, method: str, path: str, body: object = None, kind: str = "application/json") -> Object:
        """The answer. Raises RefusedError, and aiohttp.ClientError if none came."""
        data = None if body is None else json.dumps(body)
        headers = {} if body is None else {"Content-Type": kind}
        async with self._session.request(
            method, self._server + path, data=data, headers=headers, ssl=self._tls, timeout=aiohttp.ClientTimeout(30)
        ) as answer:
            text = await answer.text()
            if answer.status >= 400:
                raise RefusedError(answer.status, _message(text))
            found: Object = json.loads(text)
            return found

    async def pods_of(self, node: str) -> list[Object]:
        """The pods that are bound to a node."""
        listed = await self.send("GET", f"/api/v1/pods?fieldSelector=spec.nodeName%3D{node}")
        return list(listed["items"])

    async def annotate(self, pod: Object, annotations: Mapping[str, str]) -> None:
        """Write annotations on that very pod."""
        metadata = {"uid": pod["metadata"]["uid"], "annotations": dict(annotations)}
        await self.send("PATCH", pod_path(pod), {"metadata": metadata}, MERGE)

    async def follow(
        self, path: str, replace: Callable[[list[Object]], None], apply: Callable[[str, Object], Awaitable[None]]
    ) -> None:
        """Keep a copy of all objects at ``path`` up to date, for ever."""
        while True:
            try:
                listed = await self.send("GET", path)
                replace(list(listed["items"]))
                await self._watch(path, listed["metadata"]["resourceVersion"], apply)
            except (aiohttp.ClientError, RefusedError, OSError, ValueError, TimeoutError) as error:
                _LOG.warning("lost sight of %s: %s", path, error)
                await asyncio.sleep(0.2)

    async def _watch(self, path: str, version: str, apply: Callable[[str, Object], Awaitable[None]]) -> None:
        """Until the history is gone; ends that the server means to be ends are gone over."""
        while True:
            query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(_WATCH_SECONDS)}
            async with self._session.get(self._server + path, params=query, ssl=self._tls) as answer:
                if answer.status >= 400:
                    raise RefusedError(answer.status, _message(await answer.text()))
                async for line in answer.content:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise RefusedError(event["object"].get("code", 500), event["object"].get("message", ""))
                    version = event["object"]["metadata"]["resourceVersion"]
                    await apply(event["type"], event["object"])


def pod_path(pod: Mapping[str, Any]) -> str:
    """Its place."""
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _named(document: Mapping[str, Any], kind: str, name: str) -> dict[str, Any]:
    return next(dict(one[kind]) for one in document[f"{kind}s"] if one["name"] == name)


def _message(text: str) -> str:
    try:
        return str(json.loads(text).get("message", text))
    except ValueError:
        return text


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext | bool:
    if "certificate-authority-data" not in cluster:
        return True
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    if "client-certificate-data" in user:
        with tempfile.NamedTemporaryFile() as file:
            parts = (user["client-certificate-data"], user["client-key-data"])
            file.write(b"\n".join(base64.b64decode(part) for part in parts))
            file.flush()
            context.load_cert_chain(file.name)
    return context
