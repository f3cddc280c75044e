"""How the harness talks to an API server, real or ours: JSON over HTTP, and a watch that never loses its place."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

from clusters.api.connection import ANSWER_SECONDS, Answer, Connection, TransportError, decoded
from clusters.api.resources import NAMESPACES, NODES, PODS, Resource, resource_of

Object = dict[str, Any]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"

# A watch that brings nothing for this long is opened again, in seconds; client-go asks 5 to 10 minutes.
WATCH_SECONDS = 300
# Between two attempts against a server that does not answer, in seconds; a client with patience waits longer each time.
RETRY_SECONDS = 0.2
_LONGEST_RETRY_SECONDS = 3.2


class ApiError(Exception):
    """The API server refused: ``code`` is the HTTP status, ``reason`` the machine word, the text the message."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message


class ApiClient:
    """One connection pool to one API server; ``http`` is it, for questions of other shapes.

    A request that the server could not answer is sent again, until it has answered none for ``patience`` seconds. A change
    whose answer was lost may have been made: then a POST is answered by 409, and a DELETE by 404.
    """

    def __init__(self, http: Connection, *, patience: float = 0.0) -> None:
        self.http = http
        self._patience = patience
        # The end of the patience with a server that has answered nothing since.
        self._until: float | None = None

    @classmethod
    def from_kubeconfig(cls, path: Path) -> Self:
        """Connect by the current context of the kubeconfig at ``path``."""
        return cls(Connection.from_kubeconfig(path))

    async def close(self) -> None:
        """Close the connections."""
        await self.http.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: dict[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Any:
        """Send one request and answer its decoded JSON. Raises ApiError for any status from 400 up."""
        content = None if body is None else json.dumps(body).encode()
        response = await self._send(method, path, params, content, {"Content-Type": content_type})
        return response.json() if response.content else None

    async def text(self, path: str, params: dict[str, str] | None = None) -> str:
        """GET something that is not JSON (a log)."""
        return (await self._send("GET", path, params)).text

    async def _send(
        self,
        method: str,
        path: str,
        params: dict[str, str] | None,
        content: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """The answer to a request, sent again as long as the patience lasts. Raises ApiError for any status from 400 up."""
        pause = RETRY_SECONDS
        while True:
            try:
                response = await self.http.request(method, path, content=content, params=params, headers=headers)
                if response.status_code >= 400:
                    raise error_of(response.status_code, response.content)
            except (ApiError, TransportError) as error:
                if not is_passing(error):
                    self._until = None
                    raise
                now = asyncio.get_running_loop().time()
                if self._until is None:
                    self._until = now + self._patience
                if now + pause > self._until:
                    raise
            else:
                self._until = None
                return response
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_RETRY_SECONDS)

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object:
        """One object."""
        return dict(await self.request("GET", resource.path(namespace, name)))

    async def find(self, resource: Resource, name: str, namespace: str | None = None) -> Object | None:
        """One object, None if it is not there."""
        try:
            return await self.get(resource, name, namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            return None

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        field_selector: str | None = None,
        label_selector: str | None = None,
    ) -> list[Object]:
        """All objects of a kind, of one namespace or of all."""
        return list(
            (await self._list(resource, namespace, selectors(field_selector, label_selector))).get("items") or []
        )

    async def create(self, manifest: Object, namespace: str | None = None) -> Object:
        """Create the object that a manifest describes, in its own namespace, else ``namespace``, else ``default``."""
        resource = resource_of(manifest)
        where = (manifest.get("metadata") or {}).get("namespace") or namespace or "default"
        return dict(await self.request("POST", resource.path(where), body=manifest))

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Any,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        content_type: str = STRATEGIC_MERGE_PATCH,
    ) -> Object:
        """Change part of an object."""
        path = resource.path(namespace, name, subresource)
        return dict(await self.request("PATCH", path, body=patch, content_type=content_type))

    async def delete(
        self, resource: Resource, name: str, namespace: str | None = None, *, grace_seconds: int | None = None
    ) -> None:
        """Delete an object; with ``grace_seconds`` 0 a pod is removed immediately."""
        body = None if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
        await self.request("DELETE", resource.path(namespace, name), body=body)

    async def delete_exactly(self, resource: Resource, item: Object, *, as_seen: bool = False) -> None:
        """Delete this object, unless it is gone: not one of the same name, and if ``as_seen``, only if it has not changed."""
        metadata = item["metadata"]
        names = ("uid", "resourceVersion") if as_seen else ("uid",)
        path = resource.path(metadata.get("namespace"), metadata["name"])
        try:
            await self.request("DELETE", path, body={"preconditions": {name: metadata[name] for name in names}})
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    async def delete_node(self, node: str) -> None:
        """Delete the Node object and, right after it, the pods that were on it; a kubelet that starts registers again.

        A real control plane removes these pods itself, after 40 seconds, if no Node has come back by then. One that does come back
        has another range of pod addresses, and what still runs there is cut off from the network.
        """
        await self.delete(NODES, node)
        for pod in await self.list(PODS, field_selector=f"spec.nodeName={node}"):
            try:
                await self.delete(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"], grace_seconds=0)
            except ApiError as error:
                if error.code != 404:
                    raise

    async def ensure_namespace(self, name: str) -> None:
        """Create a namespace unless it is there."""
        try:
            await self.create({"apiVersion": "v1", "kind": NAMESPACES.kind, "metadata": {"name": name}})
        except ApiError as error:
            if error.code != 409:
                raise

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        field_selector: str | None = None,
        label_selector: str | None = None,
    ) -> AsyncIterator[tuple[str, Object]]:
        """Yield ``(type, object)`` for ever: ADDED for all that is there, then one ``("SYNCED", {})``, then changes.

        Survives closed connections, servers that are away, and 410: after a new list it yields the changes in between
        (ADDED, MODIFIED, DELETED with the last state seen), so that a consumer's picture is complete again.
        """
        params = selectors(field_selector, label_selector)
        known: dict[str, Object] = {}
        synced = False
        while True:
            try:
                listed = await self._list(resource, namespace, params)
            except (TransportError, ApiError) as error:
                await retry_after(error)
                continue
            for event in differences(known, listed.get("items") or []):
                yield event
            if not synced:
                synced = True
                yield "SYNCED", {}
            async for kind, item in self._follow(resource, namespace, params, listed["metadata"]["resourceVersion"]):
                remember(known, kind, item)
                yield kind, item

    async def _list(self, resource: Resource, namespace: str | None, params: dict[str, str]) -> Object:
        return dict(await self.request("GET", resource.path(namespace), params=params))

    async def _follow(
        self, resource: Resource, namespace: str | None, params: dict[str, str], version: str
    ) -> AsyncIterator[tuple[str, Object]]:
        """Yield changes after ``version``; returns when a new list is due: after 410, or if etcd may have been restored."""
        while True:
            try:
                async for event in self._stream(resource.path(namespace), {**params, "resourceVersion": version}):
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        yield event["type"], event["object"]
            except (ApiError, TransportError) as error:
                if await retry_after(error) or not await self._has_reached(version, resource, namespace):
                    return

    async def _has_reached(self, version: str, resource: Resource, namespace: str | None) -> bool:
        """Has the server come to this version? After a restore of etcd a watch from there stays silent. False without an answer."""
        try:
            listed = await self._list(resource, namespace, {"limit": "1"})
        except (TransportError, ApiError):
            return False
        return int(listed["metadata"]["resourceVersion"]) >= int(version)

    async def _stream(self, path: str, params: dict[str, str]) -> AsyncIterator[Object]:
        """The events of one watch request, until the server closes it. Raises ApiError, for an ERROR event too."""
        query = {**params, "watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_SECONDS)}
        silent_for = WATCH_SECONDS + ANSWER_SECONDS
        async with self.http.stream("GET", path, params=query, silent_for=silent_for) as response:
            if response.status_code >= 400:
                raise error_of(response.status_code, await response.read())
            async for line in response.lines():
                event = decoded(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise ApiError(status.get("code", 500), status.get("reason", ""), status.get("message", ""))
                yield event


async def retry_after(error: Exception) -> bool:
    """Wait before the next attempt; True when that is a new list (410). Raises other refusals (4xx)."""
    if isinstance(error, ApiError) and error.code == 410:
        return True
    if not is_passing(error):
        raise error
    await asyncio.sleep(RETRY_SECONDS)
    return False


def is_passing(error: Exception) -> bool:
    """May the same request be answered later? The server is away, is overloaded (429), or has a fault (5xx)."""
    return isinstance(error, TransportError) or (
        isinstance(error, ApiError) and (error.code >= 500 or error.code == 429)
    )


def error_of(code: int, body: bytes) -> ApiError:
    """The error in a refusal: its Status object, or the text if there is none."""
    try:
        status = json.loads(body)
        return ApiError(code, status.get("reason", ""), status.get("message", ""))
    except (ValueError, AttributeError):
        return ApiError(code, "", body.decode(errors="replace"))


def selectors(field_selector: str | None, label_selector: str | None) -> dict[str, str]:
    """Query parameters of a list or watch."""
    given = {"fieldSelector": field_selector, "labelSelector": label_selector}
    return {name: text for name, text in given.items() if text}


def uid_of(item: Object) -> str:
    """An object's identity: one that is created again under the same name is another one."""
    return str(item["metadata"]["uid"])


def is_being_deleted(item: Object) -> bool:
    """Has a client asked to delete it?"""
    return bool(item["metadata"].get("deletionTimestamp"))


def is_terminal(pod: Object) -> bool:
    """Does the pod's status show that it has ended for good?"""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def key_of(item: Object) -> str:
    """An object's identity within its kind: a re-created object of the same name is another one."""
    metadata = item["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}/{metadata.get('uid', '')}"


def remember(known: dict[str, Object], kind: str, item: Object) -> None:
    """Keep the last state seen of each object."""
    if kind == "DELETED":
        known.pop(key_of(item), None)
    else:
        known[key_of(item)] = item


def differences(known: dict[str, Object], items: list[Object]) -> list[tuple[str, Object]]:
    """The changes between a new list and the ``known`` objects, deletions first; ``known`` is brought up to date."""
    listed = {key_of(item): item for item in items}
    events = [("DELETED", known.pop(key)) for key in list(known) if key not in listed]
    for key, item in listed.items():
        old = known.get(key)
        if old is None:
            events.append(("ADDED", item))
        elif old["metadata"].get("resourceVersion") != item["metadata"].get("resourceVersion"):
            events.append(("MODIFIED", item))
        known[key] = item
    return events
