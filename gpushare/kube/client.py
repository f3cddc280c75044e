"""Requests to an API server: bytes of JSON in, Structs of the fields that we read out.

Reads that must be repeated later (429) are repeated as the server asks. Nothing else is: the meaning of a failure differs
from caller to caller (``ApiError.may_have_happened``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote

import msgspec

from gpushare.foreign import Decoder, UnreadableError
from gpushare.kube.api_errors import ApiError, GoneError, TooManyRequestsError, error_for
from gpushare.kube.http_pool import HttpPool
from gpushare.manifests import Node, ObjectMeta, Pod, PodOutline, PodSpec, ReportedNode

_T = TypeVar("_T")
_LOG = logging.getLogger(__name__)

STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
# Objects a page of a list; the server may give fewer.
PAGE: Final = 500
# How often a read is repeated that must come later, and how long each wait is at most, in seconds.
_REPEATS: Final = 5
_LONGEST_RETRY_AFTER_SECONDS: Final = 10.0


class ListMeta(msgspec.Struct, rename="camel", gc=False):
    """Where a list stands, and how to get its next page."""

    resource_version: str = ""
    continue_: str | None = msgspec.field(name="continue", default=None)


class RawList(msgspec.Struct, gc=False):
    """A list with items that are still bytes."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None


class Status(msgspec.Struct, gc=False):
    """Why an API server refused."""

    message: str | None = None
    reason: str | None = None
    code: int | None = None
    metadata: ListMeta | None = None


class _Identity(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Place(msgspec.Struct, rename="camel", gc=False):
    node_name: str | None = None


class _Outline(msgspec.Struct, gc=False):
    metadata: _Identity
    spec: _Place = msgspec.field(default_factory=_Place)


_LIST: Final = Decoder(RawList)
_STATUS: Final = Decoder(Status)
_POD: Final = Decoder(Pod)
_NODE: Final = Decoder(Node)
_REPORTED_NODE: Final = Decoder(ReportedNode)
_OUTLINE: Final = Decoder(_Outline)
# A longer text that is nested too deeply keeps its reader busy for tens of milliseconds, so a thread decodes it.
_LONG: Final = 64 * 1024


class ApiClient:
    """One pool of connections to one API server."""

    def __init__(self, http: HttpPool) -> None:
        self._http = http

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        """Send one request; the body of its answer, which is a success. Raises ApiError."""
        content = None if body is None else msgspec.json.encode(body)
        for _ in range(_REPEATS):
            try:
                return await self._send(method, path, content, params, content_type)
            except TooManyRequestsError as error:
                if method != "GET":
                    raise
                await asyncio.sleep(min(error.retry_after_seconds, _LONGEST_RETRY_AFTER_SECONDS))
        return await self._send(method, path, content, params, content_type)

    async def _send(
        self, method: str, path: str, content: bytes | None, params: Mapping[str, str] | None, content_type: str
    ) -> bytes:
        asked = self._http.answer(method, path, content=content, params=params, content_type=content_type)
        async with asked as answer:
            body = await answer.read()
            if not answer.is_success:
                raise refusal(answer.status, body, f"{method} {path}", answer.headers)
            return body

    @asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, str], *, silence_seconds: float
    ) -> AsyncIterator[AsyncGenerator[bytes, None]]:
        """The lines of a watch, until the server closes it. Raises ApiError, also after that long a silence."""
        async with self._http.answer("GET", path, params=params, silence_seconds=silence_seconds) as answer:
            if not answer.is_success:
                raise refusal(answer.status, await answer.read(), f"GET {path}", answer.headers)
            async with aclosing(lines(answer.pieces())) as found:
                yield found

    async def pages(
        self, path: str, params: Mapping[str, str] | None = None, limit: int = PAGE, *, may_mix: bool = False
    ) -> AsyncGenerator[RawList, None]:
        """A collection, page by page, all of one moment; without a ``limit`` in one piece. Raises ApiError.

        GoneError: the reader was so slow that the next page is gone; what it has read is not the whole. If moments ``may_mix``, the
        list goes on with later pages then: no object that stays is missing or there twice.
        """
        query = {**(params or {}), **({"limit": str(limit)} if limit else {})}
        repeats = _REPEATS if may_mix else 0
        while True:
            try:
                page = await decoded(_LIST, await self.request("GET", path, params=query))
            except GoneError as error:
                if not (repeats and error.next_page):
                    raise
                repeats, query["continue"] = repeats - 1, error.next_page
                continue
            except UnreadableError as error:
                raise _no_answer(path, error) from error
            yield page
            if not page.metadata.continue_:
                return
            query["continue"] = page.metadata.continue_

    async def read_each(
        self,
        path: str,
        kind: type[_T],
        take: Callable[[_T], object],
        params: Mapping[str, str] | None = None,
        on_unreadable: Callable[[PodOutline], object] | None = None,
    ) -> None:
        """Give each object of a collection away; no more than a page is in memory. Raises as ``pages``.

        One that cannot be read goes to ``on_unreadable``; without that, or without an identity, it is left out with a warning.
        """
        decoder = Decoder(kind)
        async for page in self.pages(path, params, may_mix=True):
            for item in page.items or ():
                try:
                    read = decoder.decode(item)
                except UnreadableError as error:
                    outline = outline_of(item, error)
                    if outline is None or on_unreadable is None:
                        _LOG.warning("%s", unreadable(path, outline, error))
                    else:
                        on_unreadable(outline)
                else:
                    take(read)

    async def list_pods(self) -> list[Pod]:
        """The pods of all namespaces, as they are now. Raises ApiError."""
        return (await self.pods_by_pages("", PAGE, lambda pod: pod))[0]

    async def pods_by_pages(
        self, field_selector: str, limit: int, keep: Callable[[Pod], _T | None]
    ) -> tuple[list[_T], str]:
        """As ``list_pods``, with the resourceVersion; only what ``keep`` makes of a pod is in memory longer than its page.

        For a pod that cannot be read ``keep`` is given its ``PodOutline``. A watch from that version shows what a later page had
        already. Raises ApiError.
        """
        path, version, pods = "/api/v1/pods", "", list[_T]()
        query = {"fieldSelector": field_selector} if field_selector else None
        async for page in self.pages(path, query, limit, may_mix=True):
            version = version or page.metadata.resource_version
            read = (keep(_pod_of(item, path)) for item in page.items or ())
            pods += [pod for pod in read if pod is not None]
        return pods, version

    async def list_nodes(self) -> list[Node]:
        """All nodes. Raises ApiError."""
        path = "/api/v1/nodes"
        pages = self.pages(path, may_mix=True)
        return [_decode(_NODE, item, path) async for page in pages for item in page.items or ()]

    async def get_pod(self, namespace: str, name: str) -> Pod:
        """One pod. Raises ApiError."""
        path = pod_path(namespace, name)
        return _decode(_POD, await self.request("GET", path), path)

    async def get_node(self, name: str) -> ReportedNode:
        """One node. Raises ApiError."""
        path = f"/api/v1/nodes/{quote(name, safe='')}"
        return _decode(_REPORTED_NODE, await self.request("GET", path), path)

    async def bind(self, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str]) -> None:
        """Bind a pod and annotate it, in one write: a Binding's annotations are merged into the pod (since 0.13).

        ``uid`` is a precondition since 1.23. The answer's body is a Status and is not read. Raises ApiError.
        """
        metadata: dict[str, Any] = {"name": name, "namespace": namespace, "annotations": dict(annotations)}
        if uid:
            metadata["uid"] = uid
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        await self.request("POST", pod_path(namespace, name) + "/binding", body=body)

    async def annotate_pod(self, pod: Pod, annotations: Mapping[str, str | None], *, unchanged: bool = False) -> Pod:
        """Set annotations of this very pod, or remove those that are None; the pod after it. Raises ApiError.

        One re-created under its name is refused by the uid (InvalidError); one that has changed since, if it must be
        ``unchanged``, by its version (ConflictError).
        """
        metadata: dict[str, Any] = {"uid": pod.metadata.uid, "annotations": dict(annotations)}
        if unchanged and pod.metadata.resource_version:
            metadata["resourceVersion"] = pod.metadata.resource_version
        path = pod_path(pod.metadata.namespace, pod.metadata.name)
        body = {"metadata": metadata}
        return _decode(_POD, await self.request("PATCH", path, body=body, content_type=STRATEGIC_MERGE_PATCH), path)

    async def delete_pod(self, metadata: ObjectMeta) -> None:
        """Delete this very pod, with its own grace period: one re-created under its name is another. Raises ApiError."""
        path = pod_path(metadata.namespace, metadata.name)
        await self.request("DELETE", path, body={"preconditions": {"uid": metadata.uid}})

    async def evict_pod(self, metadata: ObjectMeta) -> None:
        """Delete this very pod if no PodDisruptionBudget forbids it (TooManyRequestsError). Raises ApiError."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": metadata.name, "namespace": metadata.namespace},
            "deleteOptions": {"preconditions": {"uid": metadata.uid}},
        }
        await self.request("POST", pod_path(metadata.namespace, metadata.name) + "/eviction", body=body)

    async def patch_node_status(self, name: str, patch: Mapping[str, Any]) -> None:
        """Change part of a node's status; annotations in the patch are changed too. Raises ApiError."""
        path = f"/api/v1/nodes/{quote(name, safe='')}/status"
        await self.request("PATCH", path, body=patch, content_type=STRATEGIC_MERGE_PATCH)


def pod_path(namespace: str, name: str) -> str:
    """The path of one pod; names come from requests of strangers and are quoted."""
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"


async def lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Lines ended by a line feed; what else a text splitter takes for a line end may stand inside JSON strings.

    What comes after the last line feed was cut off and is dropped.
    """
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line.strip():
                yield line


def refusal(code: int, body: bytes, what: str, headers: Mapping[str, str]) -> ApiError:
    """The error in a refusal. Only a Status object is quoted: other bodies may hold what is not ours to log."""
    try:
        status = _STATUS.decode(body)
    except UnreadableError:
        status = Status()
    error = error_for(code, status.reason or "", status.message or "", what)
    after = headers.get("retry-after", "")
    if isinstance(error, GoneError) and status.metadata is not None:
        error.next_page = status.metadata.continue_ or ""
    if isinstance(error, TooManyRequestsError) and after.isascii() and after.isdigit():
        error.retry_after_seconds = float(after)
    return error


async def decoded(decoder: Decoder[_T], text: bytes) -> _T:
    """The value of a text of any size, while others have their turns. Raises UnreadableError."""
    return decoder.decode(text) if len(text) <= _LONG else await asyncio.to_thread(decoder.decode, text)


def outline_of(item: bytes | msgspec.Raw, problem: UnreadableError) -> PodOutline | None:
    """The identity of an object that cannot be read, and the node of a pod; None if not even these can be read."""
    try:
        outline = _OUTLINE.decode(item)
    except UnreadableError:
        return None
    one = outline.metadata
    metadata = ObjectMeta(one.name, one.namespace, one.uid, one.resource_version)
    return PodOutline(metadata, PodSpec(node_name=outline.spec.node_name), problem=str(problem))


def unreadable(path: str, outline: Pod | None, error: UnreadableError) -> str:
    """The text of the log about an object that cannot be read."""
    name = "?" if outline is None else f"{outline.metadata.namespace}/{outline.metadata.name}"
    return f"an object cannot be read and is left out path={path} object={name} error={error}"


def _pod_of(item: msgspec.Raw, path: str) -> Pod:
    try:
        return _POD.decode(item)
    except UnreadableError as error:
        if (outline := outline_of(item, error)) is None:
            raise _no_answer(path, error) from error
        _LOG.warning("%s", unreadable(path, outline, error))
        return outline


def _decode(decoder: Decoder[_T], body: bytes | msgspec.Raw, path: str) -> _T:
    try:
        return decoder.decode(body)
    except UnreadableError as error:
        raise _no_answer(path, error) from error


def _no_answer(path: str, error: UnreadableError) -> ApiError:
    return ApiError(f"GET {path}: the answer cannot be read: {error}")
