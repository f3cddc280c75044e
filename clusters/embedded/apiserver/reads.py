"""Lists: selection, pages, and the versions that they show."""

from __future__ import annotations

import asyncio
import base64
import binascii
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import msgspec

from clusters.api.connection import Connection, Stream, TransportError
from clusters.api.resources import EVENTS, NODES, Resource
from clusters.embedded.apiserver.api_objects import Object, name_of, namespace_of
from clusters.embedded.apiserver.api_routes import Route
from clusters.embedded.apiserver.api_selectors import Predicate, both, field_selector, label_selector, selects_all
from clusters.embedded.apiserver.refusals import RefusalError, bad_request, expired, internal, too_new
from clusters.embedded.apiserver.requests import Answer, Request, number, version_of
from clusters.embedded.apiserver.store import Change, Store, Stored, event_line


class Page(msgspec.Struct):
    """The content of a ``continue`` token: the version of the pages, and the last key of the page before."""

    version: int
    after: tuple[str, str]


def selection(request: Request, route: Route) -> Predicate:
    """The objects that the query selects. Raises RefusalError (400)."""
    by_label = label_selector(request.params.get("labelSelector", ""))
    return both(field_selector(request.params.get("fieldSelector", ""), route.resource), by_label)


def list_objects(store: Store, request: Request, route: Route) -> bytes:
    """The JSON of a list. Raises RefusalError (400, 410, 422, 504)."""
    # Errors of parsing come first, a field that a kind does not have last.
    label_selector(request.params.get("labelSelector", ""))
    selects = selection(request, route)
    page = _page(request, store)
    version = page.version if page else _version(request, store)
    try:
        at = None if version == store.version else version
        found = store.all(route.resource, route.namespace, at, page.after if page else None)
    except RefusalError as error:
        assert page is not None
        raise _expired_page(store, page) from error
    limit = max(number(request.params, "limit"), 0)
    if request.params.get("resourceVersion") == "0" and route.resource != EVENTS:
        # Any version will do: the real server answers from its cache, which knows no pages (and holds no events).
        limit = 0
    shown, rest = _cut(found, selects, limit)
    metadata: dict[str, object] = {"resourceVersion": str(version)}
    if rest:
        metadata["continue"] = _token(Page(version, shown[-1].key))
        if selects is selects_all:
            metadata["remainingItemCount"] = rest
    return encoded_list(route, shown, metadata)


def _cut(found: list[Stored], selects: Predicate, limit: int) -> tuple[list[Stored], int]:
    """The objects of one page, and the number that come after it: how many of these are selected is not known yet."""
    shown: list[Stored] = []
    for at, stored in enumerate(found):
        if limit and len(shown) == limit:
            return shown, len(found) - at
        if selects(stored.item):
            shown.append(stored)
    return shown, 0


def encoded_list(route: Route, found: list[Stored], metadata: dict[str, object]) -> bytes:
    """The JSON of a list of these objects."""
    resource = route.resource
    head = f'{{"kind":"{resource.kind}List","apiVersion":"{resource.api_version}","metadata":'.encode()
    items = b",".join(stored.raw for stored in found)
    return b'%s%s,"items":[%s]}' % (head, msgspec.json.encode(metadata), items)


def _version(request: Request, store: Store) -> int:
    """The version to show: the newest, which is at least as new as the one that is asked for."""
    wanted = version_of(request.params, in_list=True)
    if wanted > store.version:
        raise too_new(wanted, store.version)
    return store.version


def _page(request: Request, store: Store) -> Page | None:
    token = request.params.get("continue", "")
    if not token:
        return None
    if request.params.get("resourceVersion", "0") not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
    try:
        page = msgspec.json.decode(base64.urlsafe_b64decode(token), type=Page)
    except (binascii.Error, ValueError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error
    if page.version > store.version:
        raise _expired_page(store, page)
    return page


def _expired_page(store: Store, page: Page) -> RefusalError:
    """410 with a token that goes on from the client's place in the newest state: complete, but not consistent."""
    refusal = expired(page.version, store.version)
    refusal.message = (
        "The continue token is too old for a consistent list. Start a new list, or use the token in this answer: the rest that "
        "it leads to is of another version."
    )
    refusal.list_metadata = {"continue": _token(Page(store.version, page.after))}
    return refusal


def aged(token: str) -> str:
    """The same token, as if the history of its version were gone."""
    return _token(Page(0, msgspec.json.decode(base64.urlsafe_b64decode(token), type=Page).after))


def _token(page: Page) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(page)).decode()


# How long a watch lasts when the client does not say, in seconds; the real server takes 30 to 60 minutes.
DEFAULT_SECONDS: Final = 1800
# The time between two bookmarks of a watch, as of the real server.
_BOOKMARK_SECONDS: Final = 60.0
# The annotation of the bookmark that ends the objects that were there at the start.
_INITIAL_END: Final = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class WatchQuery:
    """The objects that a watch shows, its first version, and its duration."""

    resource: Resource
    namespace: str | None
    selects: Predicate
    version: int
    with_initial: bool
    with_bookmarks: bool
    seconds: int


class Watches:
    """The watches of one server. ``lag``: the most seconds by which their events come late; each watch draws its own."""

    def __init__(self, store: Store, lag: float = 0.0) -> None:
        self._store = store
        self._lag = lag
        self._open: set[asyncio.Event] = set()
        self._epoch = 0
        self.closed = False
        """While it is set (the server is stopping), each watch ends as soon as it has shown what there is."""

    def close(self) -> None:
        """End all watches that are open now, cleanly, as a server does at a watch's deadline."""
        self._epoch += 1
        for woken in self._open:
            woken.set()

    def start(self, request: Request, route: Route) -> AsyncIterator[bytes]:
        """The events of one watch. Raises RefusalError for a query that makes no sense, before the first event."""
        return self._events(_query(request, route, self._store.version))

    async def _events(self, query: WatchQuery) -> AsyncIterator[bytes]:
        woken = asyncio.Event()
        self._open.add(woken)
        forget = self._store.wake_on_change(query.resource, woken.set)
        lag = random.uniform(0, self._lag)  # noqa: S311 - no secret
        try:
            async for chunk in self._chunks(query, woken):
                if lag and not self.closed:
                    await asyncio.sleep(random.uniform(0, lag))  # noqa: S311 - no secret
                yield chunk
        finally:
            forget()
            self._open.discard(woken)

    async def _chunks(self, query: WatchQuery, woken: asyncio.Event) -> AsyncIterator[bytes]:
        epoch, now = self._epoch, asyncio.get_running_loop().time
        end, next_bookmark = now() + query.seconds, now() + _BOOKMARK_SECONDS
        version = query.version
        if query.with_initial:
            if query.version > self._store.version:
                yield event_line("ERROR", msgspec.json.encode(too_new(query.version, self._store.version).status()))
                return
            version = self._store.version
            yield self._initial(query, version)
        while True:
            woken.clear()
            try:
                changes = self._store.since(query.resource, version)
            except RefusalError as refusal:
                yield _too_old(query, refusal)
                return
            # Nothing of this kind is missing up to here, whatever other kinds have done.
            version = max(version, self._store.version)
            if chunk := b"".join(shown(change, query) for change in changes):
                yield chunk
            ends = self.closed or epoch != self._epoch or now() >= end
            if query.with_bookmarks and (ends or now() >= next_bookmark):
                next_bookmark = now() + _BOOKMARK_SECONDS
                yield bookmark(query.resource, version)
            if ends:
                return
            await _wait(woken, min(end, next_bookmark) - now())

    def _initial(self, query: WatchQuery, version: int) -> bytes:
        found = self._store.all(query.resource, query.namespace)
        chunk = b"".join(event_line("ADDED", stored.json()) for stored in found if query.selects(stored.item))
        if query.with_bookmarks:
            chunk += bookmark(query.resource, version, annotations={_INITIAL_END: "true"})
        return chunk


def shown(change: Change, query: WatchQuery) -> bytes:
    """The line of a change for this watch: entering the selection is ADDED, leaving it is DELETED."""
    if query.namespace is not None and change.last.key[0] != query.namespace:
        return b""
    was = change.old is not None and query.selects(change.old.item)
    if change.new is None:
        return change.line("DELETED") if was else b""
    if query.selects(change.new.item):
        return change.line("MODIFIED" if was else "ADDED")
    return change.line("LEFT") if was else b""


def bookmark(resource: Resource, version: int, annotations: dict[str, str] | None = None) -> bytes:
    """An event that only shows how far the watch has come: an object with nothing but its version."""
    metadata: dict[str, object] = {"resourceVersion": str(version)}
    if annotations:
        metadata["annotations"] = annotations
    item = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
    return event_line("BOOKMARK", msgspec.json.encode(item))


def _too_old(query: WatchQuery, refusal: RefusalError) -> bytes:
    # The real server does not keep events in memory: there the 410 comes from etcd itself.
    if query.resource == EVENTS:
        refusal.message = "The resourceVersion for the provided watch is too old."
    return event_line("ERROR", msgspec.json.encode(refusal.status()))


async def _wait(woken: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(max(seconds, 0)):
            await woken.wait()
    except TimeoutError:
        return


def _query(request: Request, route: Route, current: int) -> WatchQuery:
    label_selector(request.params.get("labelSelector", ""))
    selects = selection(request, route)
    version = version_of(request.params)
    initial = request.params.get("sendInitialEvents", "")
    with_initial = request.is_set("sendInitialEvents") if initial else version == 0
    return WatchQuery(
        resource=route.resource,
        namespace=route.namespace,
        selects=selects,
        version=version or current,
        with_initial=with_initial,
        with_bookmarks=request.is_set("allowWatchBookmarks"),
        seconds=max(number(request.params, "timeoutSeconds"), 0) or DEFAULT_SECONDS,
    )


# The part of the query that the kubelet reads; everything else is for the API server.
_PASSED: Final = ("follow", "previous", "timestamps", "tailLines", "limitBytes", "sinceSeconds", "sinceTime")


class PodLogs:
    """Asks kubelets for logs until ``close``."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._http = Connection()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()

    async def read(self, pod: Object, request: Request) -> Answer:
        """The log of one container. Raises RefusalError (400, 404, 500)."""
        container = container_of(pod, request.params.get("container", ""))
        url = self._url(pod, container)
        params: dict[str, str] = {key: request.params[key] for key in _PASSED if key in request.params}
        # A log that is followed may say nothing for a long time.
        asked = self._http.stream("GET", url, params=params, silent_for=None)
        async with AsyncExitStack() as stack:
            try:
                response = await stack.enter_async_context(asked)
            except TransportError as error:
                raise internal(f'Get "{url}": {error}') from error
            if response.status_code >= 400:
                raise _refusal(response.status_code, (await response.read()).decode(errors="replace").strip())
            return Answer(_pieces(response, stack.pop_all()), content_type="text/plain")

    def _url(self, pod: Object, container: str) -> str:
        node = pod["spec"].get("nodeName", "")
        if not node:
            raise bad_request(f"pod {name_of(pod)} does not have a host assigned")
        path = "/".join(quote(part, safe="") for part in (namespace_of(pod), name_of(pod), container))
        return f"http://127.0.0.1:{self._port(node)}/containerLogs/{path}"

    def _port(self, node: str) -> int:
        stored = self._store.get(NODES, "", node)
        port = stored.item["status"]["daemonEndpoints"].get("kubeletEndpoint", {}).get("Port") if stored else None
        if not isinstance(port, int) or not port:
            raise internal(f'node "{node}" is not there, or does not say on which port its kubelet listens')
        return port


def container_of(pod: Object, wanted: str) -> str:
    """The container that the request means. Raises RefusalError (400) if that is not clear."""
    names = [each["name"] for each in pod["spec"].get("containers", [])]
    initial = [each["name"] for each in pod["spec"].get("initContainers", [])]
    if wanted in names or wanted in initial:
        return wanted
    if wanted:
        raise bad_request(f"container {wanted} is not valid for pod {name_of(pod)}")
    if len(names) != 1:
        choices = " ".join(names)
        raise bad_request(f"a container name must be specified for pod {name_of(pod)}, choose one of: [{choices}]")
    return str(names[0])


async def _pieces(response: Stream, opened: AsyncExitStack) -> AsyncIterator[bytes]:
    async with opened:
        async for piece in response.pieces():
            yield piece


def _refusal(code: int, text: str) -> RefusalError:
    text = text or f"the kubelet answered {code}"
    reason = {400: "BadRequest", 404: "NotFound", 405: "MethodNotAllowed"}.get(code)
    return RefusalError(code, reason, text) if reason else internal(text)
