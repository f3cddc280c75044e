"""Follow one kind of object: list, then watch, for ever.

Survives what an API server does (API conventions, "Efficient detection of changes")::

    the watch                                    then
    ends cleanly, breaks, falls silent, 429      watch again from the last version seen
    is refused: 410 as a status or as an event,  list again
      any other refusal, an event of no sense
      (after a restore of etcd our version may
      lie in a future that never comes)

with a pause that doubles until something succeeds. After a new list the handler gets the removals that happened in
between. An object re-created under its name is first removed, then set, even if the deletion itself was missed.

Restoring etcd from a snapshot takes the server's history back: versions that were given once are given again, for other
contents. A list is read from the newest state, so a list below a version that was seen before shows such a restore. The handler
gets ``restart_history`` before the objects of that list. A watch from a version that the server has not reached yet may stay
silent for ever, so a watch is resumed after a broken connection or a long pause only once the server was asked for its version.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from gpushare.foreign import Decoder, UnreadableError, version_number
from gpushare.kube.api_errors import ApiError, GoneError, TooManyRequestsError, UnreachableError, error_for
from gpushare.kube.client import PAGE, ApiClient, Status, decoded, outline_of, unreadable
from gpushare.manifests import AnyObject, ObjectMeta, PodOutline

_LOG = logging.getLogger(__name__)

# How long one watch request lasts, in seconds; client-go asks 5 to 10 minutes.
_WATCH_SECONDS: Final = (300, 600)
# A watch without a byte for this long (bookmarks come about once a minute) is taken for dead and resumed, in seconds.
_SILENCE_SECONDS: Final = 150.0
# Pause after a failure, in seconds: the first, and the most.
_FIRST_PAUSE_SECONDS: Final = 0.2
_LONGEST_PAUSE_SECONDS: Final = 30.0
# Events handled in one turn of the loop before others have theirs.
_EVENTS_A_TURN: Final = 32
# In the place of a name that cannot be read.
_NAMELESS: Final = ("", "")


class HasMetadata(Protocol):
    """Any object of the API."""

    metadata: ObjectMeta


T = TypeVar("T", bound=HasMetadata)
T_contra = TypeVar("T_contra", contravariant=True)


class Handler(Protocol[T_contra]):
    """The receiver of changes. Plain functions: they run inside the loop's turn."""

    def set(self, item: T_contra) -> None:
        """An object is new or changed."""

    def remove(self, metadata: ObjectMeta) -> None:
        """An object is gone: its namespace, name and uid."""

    def restart_history(self) -> None:
        """The server's history went back (etcd was restored), and a list of the restored state follows.

        Versions seen before count no more, and an object that was seen to end may exist again. Objects that the list does not
        show are removed one by one after it, as with every list: until then they may still be in use.
        """


@dataclass(slots=True)
class Contact:
    """How fresh a reflector's copy of its collection is, for metrics and logs."""

    last_answer_at: float | None = None
    """When the last list, event or bookmark (about one a minute) came, in seconds of ``time.monotonic``; None before the first."""
    unreadable: int = 0
    """Objects that could not be read, each time that the API server showed them."""
    lists: int = 0
    """Whole lists that were read; more than one means that the history was lost, or that something was refused."""


class _Event(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


_EVENT: Final = Decoder(_Event)
_BOOKMARK: Final = Decoder(AnyObject)
_STATUS: Final = Decoder(Status)


class Reflector(Generic[T]):
    """Keeps ``handler`` up to date with the collection at ``path``, which it lists ``page`` objects at a time.

    An object that cannot be read hides no other: ``on_unreadable`` gets its identity, and if it is a pod its node. The handler
    keeps what it has of it until it can be read again, or is gone.

    ``held`` are the objects that the handler has. It may know one by an answer alone, and if that goes while the watch is broken
    no event of it ever comes: one that is held before a list is asked for, and that the list lacks, is gone.
    """

    def __init__(
        self,
        client: ApiClient,
        path: str,
        kind: type[T],
        handler: Handler[T],
        *,
        field_selector: str | None = None,
        label_selector: str | None = None,
        rng: random.Random | None = None,
        page: int = PAGE,
        on_unreadable: Callable[[PodOutline], None] = lambda _: None,
        held: Callable[[], Iterable[ObjectMeta]] = tuple,
    ) -> None:
        self._client = client
        self._page = page
        self._path = path
        self._decoder = Decoder(kind)
        self._handler = handler
        self._on_unreadable = on_unreadable
        self._held = held
        # Objects that could not be read, by their names, which are logged once; "" for those without one that can be read.
        self._unreadable: set[tuple[str, str]] = set()
        selectors = {"fieldSelector": field_selector, "labelSelector": label_selector}
        self._params = {name: selector for name, selector in selectors.items() if selector}
        # Jitter only: nothing depends on it being hard to guess.
        self._rng = rng or random.Random()  # noqa: S311
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        self.version = ""
        """The resourceVersion up to which the handler has everything; empty before the first list."""
        # By namespace and name: the uid. Tens of thousands, and no more of each object.
        self._known: dict[tuple[str, str], str] = {}
        self.synced = asyncio.Event()
        self.is_listing = True
        """Is what the handler is given now from a list? States between may be missing; a watch gives each of them."""
        self.contact = Contact()
        # The resourceVersion up to which the handler has everything, and the news that it has changed.
        self._handled = 0
        self._news = asyncio.Event()
        # The resourceVersion that was read last, of a list that may still be under way or of an event.
        self._seen = 0
        # The connection of the last watch broke, or the pause after it was long: the server may have been restored since.
        self._was_away = False

    async def come_to(self, version: int, seconds: float) -> bool:
        """Wait until the handler has everything up to this resourceVersion; False if that takes longer.

        Versions are compared as numbers, as Kubernetes allows within a resource (KEP-5504) and etcd always made them.
        """
        try:
            async with asyncio.timeout(seconds):
                while self._handled < version:
                    await self._news.wait()
        except TimeoutError:
            return False
        return True

    def _advance(self, version: str) -> None:
        """The handler has everything up to this version."""
        if number := version_number(version):
            self._handled = self._seen = number
        self._news.set()
        self._news = asyncio.Event()

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                await self._list()
                self._was_away = False
                while True:
                    await self._watch()
                    await self._pause()
            except GoneError as error:
                _LOG.info("listing again path=%s reason=the history is gone error=%s", self._path, error)
            except (ApiError, UnreadableError) as error:
                _LOG.warning("cannot follow path=%s error=%s; listing again", self._path, error)
            await self._pause()

    async def _pause(self) -> None:
        """Wait, each time twice as long until something succeeds."""
        seconds = self._pause_seconds * self._rng.uniform(0.8, 1.2)
        self._was_away |= self._pause_seconds > _FIRST_PAUSE_SECONDS
        self._pause_seconds = min(self._pause_seconds * 2, _LONGEST_PAUSE_SECONDS)
        await asyncio.sleep(seconds)

    async def _list(self) -> None:
        """Page by page: 50,000 pods together, as bytes and as objects, are half a gigabyte."""
        self.is_listing = True
        held = tuple(self._held())
        absent = self._known.keys() - {_NAMELESS}
        version = ""
        try:
            async for page in self._client.pages(self._path, self._params, self._page):
                # All pages are of the version of the first. Should one not be, the watch from there repeats what lies between.
                version = version or self._begin(page.metadata.resource_version)
                await self._take(page.items or (), absent)
        except GoneError:
            # It took so long that the next page is gone: begin again, and whole.
            absent = self._known.keys() - {_NAMELESS}
            async for page in self._client.pages(self._path, self._params, limit=0):
                version = self._begin(page.metadata.resource_version)
                await self._take(page.items or (), absent)
        # One without a name that can be read may be any of those that seem to lack.
        if _NAMELESS not in absent:
            uids = set(self._known.values())
            gone = [ObjectMeta(key[1], key[0], uid) for key, uid in self._known.items() if key in absent]
            for metadata in (*gone, *(one for one in held if one.uid not in uids)):
                self._remove(metadata)
        self.is_listing = False
        self.version = version
        self._advance(self.version)
        self.contact.lists += 1
        self.synced.set()

    def _begin(self, version: str) -> str:
        """A list of this version begins: see whether the server's history went back. The version."""
        if number := version_number(version):
            if number < self._seen:
                _LOG.warning(
                    "the server's history went back path=%s from=%d to=%d; everything is read again",
                    self._path, self._seen, number,
                )  # fmt: skip
                self._handled = 0
                self._handler.restart_history()
            self._seen = number
        return version

    async def _take(self, items: Sequence[msgspec.Raw], absent: set[tuple[str, str]]) -> None:
        """Tell the handler of listed objects, some in a turn of the loop, and note that they are there."""
        self.contact.last_answer_at = time.monotonic()
        for count, raw in enumerate(items, start=1):
            metadata = self._enter(raw, is_gone=False)
            key = _NAMELESS if metadata is None else (metadata.namespace, metadata.name)
            (absent.add if key == _NAMELESS else absent.discard)(key)
            if count % _EVENTS_A_TURN == 0:
                await asyncio.sleep(0)

    async def _watch(self) -> None:
        """Follow changes after the version reached, until the watch ends. Raises ApiError when a new list is due."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            if self._was_away:
                await self._compare_history()
            self._was_away = False
            await self._follow()
        except UnreachableError as error:
            self._was_away = True
            _LOG.warning("watch broke path=%s error=%s", self._path, error)
        except TooManyRequestsError as error:
            _LOG.warning("watch broke path=%s error=%s", self._path, error)
        finally:
            # The connection held, though nothing happened; only a server that closes immediately must not be asked in a tight loop.
            if loop.time() - started > _LONGEST_PAUSE_SECONDS:
                self._pause_seconds = _FIRST_PAUSE_SECONDS

    async def _compare_history(self) -> None:
        """Ask for the server's version alone. Raises GoneError if it lies before ours, and ApiError."""
        async with aclosing(self._client.pages(self._path, self._params, limit=1)) as pages:
            async for page in pages:
                version = page.metadata.resource_version
                if 0 < version_number(version) < self._seen:
                    raise error_for(410, "Expired", f"version {self._seen} is not reached yet", f"watch {self._path}")
                return

    async def _follow(self) -> None:
        """Handle the events of one watch request, until the server closes it."""
        params = {
            **self._params,
            "watch": "1",
            "resourceVersion": self.version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._rng.randint(*_WATCH_SECONDS)),
        }
        count = 0
        async with self._client.stream(self._path, params, silence_seconds=_SILENCE_SECONDS) as stream:
            async for line in stream:
                self.version = self._handle(await decoded(_EVENT, line)) or self.version
                self._advance(self.version)
                self.contact.last_answer_at = time.monotonic()
                self._pause_seconds = _FIRST_PAUSE_SECONDS
                count += 1
                if count % _EVENTS_A_TURN == 0:
                    await asyncio.sleep(0)

    def _handle(self, event: _Event) -> str:
        """Tell the handler; the resourceVersion of the event. Raises ApiError for an ERROR event."""
        if event.type == "ERROR":
            status = _STATUS.decode(event.object)
            raise error_for(status.code or 500, status.reason or "", status.message or "", f"watch {self._path}")
        if event.type == "BOOKMARK":
            return _BOOKMARK.decode(event.object).metadata.resource_version
        metadata = self._enter(event.object, is_gone=event.type == "DELETED")
        return "" if metadata is None else metadata.resource_version

    def _enter(self, raw: msgspec.Raw, *, is_gone: bool) -> ObjectMeta | None:
        """Tell the handler of an object; its metadata, None if they cannot be read."""
        try:
            item = self._decoder.decode(raw)
        except UnreadableError as error:
            outline = outline_of(raw, error)
            self._report(outline, error)
            if outline is None:
                return None
            metadata = outline.metadata
            tell = partial(self._on_unreadable, outline)
        else:
            metadata = item.metadata
            self._unreadable.discard((metadata.namespace, metadata.name))
            tell = partial(self._handler.set, item)
        # Thousands of objects have the same.
        metadata.namespace = sys.intern(metadata.namespace)
        if is_gone:
            self._remove(metadata)
        else:
            self._note(metadata)
            tell()
        return metadata

    def _report(self, outline: PodOutline | None, error: UnreadableError) -> None:
        """Count an object that cannot be read, and log it once."""
        self.contact.unreadable += 1
        key = _NAMELESS if outline is None else (outline.metadata.namespace, outline.metadata.name)
        if key not in self._unreadable:
            self._unreadable.add(key)
            _LOG.warning("%s", unreadable(self._path, outline, error))

    def _note(self, metadata: ObjectMeta) -> None:
        """An object is there; the one that had its name before is gone."""
        key = (metadata.namespace, metadata.name)
        known = self._known.get(key)
        if known is not None and known != metadata.uid:
            self._handler.remove(ObjectMeta(metadata.name, metadata.namespace, known))
        self._known[key] = metadata.uid

    def _remove(self, metadata: ObjectMeta) -> None:
        key = (metadata.namespace, metadata.name)
        self._unreadable.discard(key)
        if self._known.get(key) == metadata.uid:
            del self._known[key]
        self._handler.remove(metadata)
