"""Watches: what changes after a version, one JSON event a line.

No event is lost or doubled between a list and the watch that follows it: both go by the store's one counter.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

import msgspec

from clusters.api.resources import EVENTS, Resource
from clusters.embedded.apiserver import options
from clusters.embedded.apiserver.api_routes import Route
from clusters.embedded.apiserver.api_selectors import Predicate, label_selector
from clusters.embedded.apiserver.reads import selection
from clusters.embedded.apiserver.refusals import RefusalError, too_new
from clusters.embedded.apiserver.requests import Request
from clusters.embedded.apiserver.store import Change, Store, event_line

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
    options.check_watch(request.params)
    selects = selection(request, route)
    version = options.version_of(request.params)
    initial = request.params.get("sendInitialEvents", "")
    with_initial = request.is_set("sendInitialEvents") if initial else version == 0
    return WatchQuery(
        resource=route.resource,
        namespace=route.namespace,
        selects=selects,
        version=version or current,
        with_initial=with_initial,
        with_bookmarks=request.is_set("allowWatchBookmarks"),
        seconds=max(options.number(request.params, "timeoutSeconds"), 0) or DEFAULT_SECONDS,
    )
