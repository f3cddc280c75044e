"""The state: objects, one counter of versions, and a bounded memory of changes for watches.

Synchronous and in memory, to be called from one thread. Objects in here are never changed in place: a
write puts a new object in the place of the old one, so that readers keep what they have read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import msgspec

from clusters.api.resources import Resource
from clusters.embedded.apiserver.api_objects import Object, metadata_of
from clusters.embedded.apiserver.refusals import expired

Key = tuple[str, str]
# The versions that a restore of etcd takes back beside those of the writes.
_LOST_VERSIONS: Final = 10_000


class Stored:
    """One state of an object, and its JSON without kind and apiVersion (as in a list), shared by all readers."""

    __slots__ = ("item", "raw", "resource", "version")

    def __init__(self, resource: Resource, item: Object, version: int) -> None:
        self.resource = resource
        self.item = item
        self.version = version
        self.raw = msgspec.json.encode({key: value for key, value in item.items() if key not in ("kind", "apiVersion")})

    @property
    def key(self) -> Key:
        """Namespace (empty for the whole cluster) and name."""
        metadata = metadata_of(self.item)
        return metadata.get("namespace", ""), metadata["name"]

    def json(self) -> bytes:
        """JSON of the object on its own, kind and apiVersion first."""
        head = f'{{"kind":"{self.resource.kind}","apiVersion":"{self.resource.api_version}",'
        return head.encode() + self.raw[1:]


@dataclass(slots=True)
class Change:
    """One write: what the object was (None: created) and what it is (None: deleted; then ``last`` is its last state)."""

    version: int
    old: Stored | None
    new: Stored | None
    last: Stored
    _lines: dict[str, bytes] = field(default_factory=dict)

    def line(self, kind: str) -> bytes:
        """The event as a line of a watch, encoded once for all watches.

        ``LEFT`` is a DELETED for watches that selected the object before: it shows the state that they knew, at the
        version of this change.
        """
        line = self._lines.get(kind)
        if line is None:
            shown = self._as_it_left() if kind == "LEFT" else self.last
            line = event_line("DELETED" if kind == "LEFT" else kind, shown.json())
            self._lines[kind] = line
        return line

    def _as_it_left(self) -> Stored:
        assert self.old is not None
        return Stored(self.last.resource, with_version(self.old.item, self.version), self.version)


@dataclass(slots=True)
class Collection:
    """The objects of one kind and the changes that are remembered."""

    items: dict[Key, Stored] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    # Changes up to this version are forgotten.
    floor: int = 0
    wakers: set[Callable[[], None]] = field(default_factory=set)
    # The keys in order; None after one has come or gone, until they are needed.
    ordered: list[Key] | None = None

    def keys(self) -> list[Key]:
        """In order. A list of a hundred thousand objects is read page by page: it is not sorted for each."""
        if self.ordered is None:
            self.ordered = sorted(self.items)
        return self.ordered


class Store:
    """All objects. ``history`` is how many changes of each kind are remembered."""

    def __init__(self, resources: Iterable[Resource], *, history: int) -> None:
        self.version = 1
        self.note: Callable[[Change], None] = lambda _: None
        """Called with each change."""
        self.loses_events = False
        """While it is set, no watch ever shows a change."""
        self._history = history
        self._collections = {resource: Collection() for resource in resources}

    def get(self, resource: Resource, namespace: str, name: str) -> Stored | None:
        """One object; ``namespace`` is empty for a kind that has none."""
        return self._collections[resource].items.get((namespace, name))

    def all(
        self, resource: Resource, namespace: str | None = None, at: int | None = None, after: Key | None = None
    ) -> list[Stored]:
        """The objects of a kind by namespace and name; ``at``: as they were at that version (raises RefusalError 410).

        ``after``: only those behind this key.
        """
        collection = self._collections[resource]
        items = collection.items if at is None else self._as_of(resource, at)
        keys = collection.keys() if at is None else sorted(items)
        first = 0 if after is None else bisect_right(keys, after)
        return [items[key] for key in islice(keys, first, None) if namespace is None or key[0] == namespace]

    def put(self, resource: Resource, item: Object) -> Stored:
        """Write an object: create it, or replace the one of this name."""
        self.version += 1
        stored = Stored(resource, with_version(item, self.version), self.version)
        collection = self._collections[resource]
        old = collection.items.get(stored.key)
        collection.items[stored.key] = stored
        if old is None:
            collection.ordered = None
        self._remember(collection, Change(self.version, old, stored, stored))
        return stored

    def remove(self, resource: Resource, item: Object) -> Stored:
        """Remove an object with ``item`` as its last state; returns that state at the version of the removal."""
        self.version += 1
        last = Stored(resource, with_version(item, self.version), self.version)
        collection = self._collections[resource]
        old = collection.items.pop(last.key)
        collection.ordered = None
        self._remember(collection, Change(self.version, old, None, last))
        return last

    def saved(self, resource: Resource, namespace: str) -> Callable[[], None]:
        """A function that restores the version and the objects of this kind in a namespace; no watch shows what it does."""
        collection, version = self._collections[resource], self.version
        saved = {key: stored for key, stored in collection.items.items() if key[0] == namespace}
        # Others write much until then: the restored history does not come to the versions of the lost one.
        self.version += _LOST_VERSIONS

        def restore() -> None:
            self.version = version
            for key in sorted({key for key in collection.items if key[0] == namespace} | saved.keys()):
                old, new = collection.items.pop(key, None), saved.get(key)
                if new is not None:
                    collection.items[key] = new
                if (last := new or old) is not None and old is not new:
                    self.note(Change(version, old, new, last))
            collection.ordered = None

        return restore

    def since(self, resource: Resource, version: int) -> list[Change]:
        """The changes after ``version``, oldest first. Raises RefusalError (410) when some are forgotten."""
        collection = self._collections[resource]
        if version < collection.floor:
            raise expired(version, collection.floor)
        start = bisect_right(collection.changes, version, key=lambda change: change.version)
        return collection.changes[start:]

    def forget_changes(self) -> None:
        """Forget all changes, as if much time had passed: a client that resumes a watch at an older version gets 410."""
        for collection in self._collections.values():
            collection.changes.clear()
            collection.floor = self.version

    def wake_on_change(self, resource: Resource, wake: Callable[[], None]) -> Callable[[], None]:
        """Call ``wake`` after each change of a kind, until the function that this answers is called."""
        wakers = self._collections[resource].wakers
        wakers.add(wake)
        return lambda: wakers.discard(wake)

    def _remember(self, collection: Collection, change: Change) -> None:
        changes = collection.changes
        if not self.loses_events:
            changes.append(change)
        if len(changes) > self._history:
            collection.floor = changes[-self._history - 1].version
        # Cutting a little at a time would copy the list with every write.
        if len(changes) > 2 * self._history:
            del changes[: -self._history]
        self.note(change)
        for wake in collection.wakers:
            wake()

    def _as_of(self, resource: Resource, version: int) -> dict[Key, Stored]:
        items = dict(self._collections[resource].items)
        for change in reversed(self.since(resource, version)):
            if change.old is None:
                del items[change.last.key]
            else:
                items[change.last.key] = change.old
        return items


def with_version(item: Object, version: int) -> Object:
    """The object with this resourceVersion."""
    return {**item, "metadata": {**item["metadata"], "resourceVersion": str(version)}}


def event_line(kind: str, item: bytes) -> bytes:
    """One line of a watch."""
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), item)
