"""The pods that wait: which one is next, and when.

Pure: the clock's reading is passed in, in seconds. A pod lies in one pool:

    active --pop--> in flight --done--> (out)
      ^ ^              | requeue_failed, requeue_rejected with a wake-up in between
      | +--- backoff <-+
      |        ^       | requeue_rejected
      +--------+--- unschedulable        (wake, own change, or five minutes)
    gated: not touched until the gates are gone

While nothing is active a refused pod need not sit its backoff out; one whose attempt failed with an error must. A pod
with victims that are being evicted is held back until their eviction has been asked for.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from clusters.api.api_client import Object, uid_of
from clusters.embedded.scheduling.fit import (
    EXTENDER,
    NODE_AFFINITY,
    NODE_RESOURCES_FIT,
    NODE_UNSCHEDULABLE,
    TAINT_TOLERATION,
)
from clusters.embedded.scheduling.pod_fields import is_gated, priority_of


class Change(Enum):
    """The kind of an event. *Pod* is one that is assigned to a node, *own* the waiting pod itself."""

    POD_ADDED = auto()
    POD_UPDATED = auto()
    POD_DELETED = auto()  # or has ended, or gave up the node it was nominated to
    NODE_ADDED = auto()
    NODE_DELETED = auto()
    NODE_ALLOCATABLE = auto()
    NODE_LABELS = auto()
    NODE_TAINTS = auto()
    NODE_CONDITIONS = auto()
    NODE_ANNOTATIONS = auto()
    OWN_UPDATED = auto()
    OWN_TOLERATIONS = auto()


CURES: dict[str, frozenset[Change]] = {
    EXTENDER: frozenset(Change),
    NODE_RESOURCES_FIT: frozenset({Change.POD_DELETED, Change.NODE_ADDED, Change.NODE_ALLOCATABLE}),
    NODE_AFFINITY: frozenset({Change.NODE_ADDED, Change.NODE_LABELS}),
    TAINT_TOLERATION: frozenset({Change.NODE_ADDED, Change.NODE_TAINTS, Change.OWN_TOLERATIONS}),
    NODE_UNSCHEDULABLE: frozenset({Change.NODE_ADDED, Change.NODE_TAINTS, Change.OWN_TOLERATIONS}),
}


def wakes(rejectors: frozenset[str], change: Change) -> bool:
    """Whether the change gives another try to a pod that ``rejectors`` (names of filters) turned away."""
    return any(change in CURES[rejector] for rejector in rejectors)


def node_changes(old: Object | None, new: Object) -> list[Change]:
    """The change of a node between two states of it; a heartbeat alone is none, nor is a cordon."""
    if old is None:
        return [Change.NODE_ADDED]
    before, after = facets(old), facets(new)
    changes = [change for change, facet in after.items() if before[change] != facet]
    was_cordoned, is_cordoned = ((each.get("spec") or {}).get("unschedulable") for each in (old, new))
    if was_cordoned and not is_cordoned and Change.NODE_TAINTS not in changes:
        changes.append(Change.NODE_TAINTS)
    return changes


def facets(node: Object) -> dict[Change, object]:
    """The parts of a node with a kind of event of their own."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    return {
        Change.NODE_ALLOCATABLE: status.get("allocatable") or {},
        Change.NODE_LABELS: node["metadata"].get("labels") or {},
        Change.NODE_TAINTS: spec.get("taints") or [],
        Change.NODE_CONDITIONS: {each["type"]: each["status"] for each in status.get("conditions") or []},
        Change.NODE_ANNOTATIONS: node["metadata"].get("annotations") or {},
    }


def own_change(old: Object, new: Object) -> Change:
    """The change of the waiting pod itself; its status counts too, so that a written condition is an event."""
    before, after = (len(pod["spec"].get("tolerations") or []) for pod in (old, new))
    return Change.OWN_UPDATED if before == after else Change.OWN_TOLERATIONS


# A pod that nothing has woken for this long is tried again, in seconds.
LEFTOVER_SECONDS = 300.0


class Pool(Enum):
    """Where a waiting pod lies."""

    ACTIVE = auto()
    BACKOFF = auto()
    UNSCHEDULABLE = auto()
    GATED = auto()


@dataclass(slots=True)
class QueuedPod:
    """A waiting pod. ``since``: when it came, or when its last attempt failed."""

    pod: Object
    since: float
    pool: Pool
    # Attempts that ended with a refusal, and those in a row since that ended with an error.
    refusals: int = 0
    errors: int = 0
    rejectors: frozenset[str] = frozenset()
    is_held: bool = False
    # Heap entries made before the last move are stale, and have another ticket.
    ticket: int = 0

    @property
    def uid(self) -> str:
        """The pod's identity."""
        return uid_of(self.pod)

    @property
    def priority(self) -> int:
        """The pod's priority; higher goes first."""
        return priority_of(self.pod)


class SchedulingQueue:
    """Active, backoff, unschedulable and gated pods, and those in flight."""

    def __init__(
        self,
        initial_backoff_seconds: float = 1,
        max_backoff_seconds: float = 10,
        is_preempting: Callable[[str], bool] = lambda uid: False,
    ) -> None:
        """``is_preempting``: whether victims of the pod with that uid are just being evicted."""
        self._initial = initial_backoff_seconds
        self._max = max_backoff_seconds
        self._is_preempting = is_preempting
        self._items: dict[str, QueuedPod] = {}
        self._in_flight: dict[str, list[Change]] = {}
        self._active: list[tuple[Any, ...]] = []
        # When a pod's time in BACKOFF or UNSCHEDULABLE is up.
        self._timers: list[tuple[float, int, str]] = []
        # The refused ones in BACKOFF, which may go earlier. An entry of a heap ends with ticket and uid.
        self._refused: list[tuple[Any, ...]] = []
        self._tickets = 0

    def pool_of(self, uid: str) -> Pool | None:
        """The pool of a pod, None if it is in none."""
        item = self._items.get(uid)
        return None if item is None else item.pool

    def is_in_flight(self, uid: str) -> bool:
        """Whether a scheduling cycle for the pod is under way."""
        return uid in self._in_flight

    def add(self, pod: Object, now: float) -> None:
        """A new pod: next in line behind its equals, unless gates hold it."""
        item = QueuedPod(pod, now, Pool.ACTIVE)
        self._items[item.uid] = item
        self._move(item, Pool.GATED if is_gated(pod) else Pool.ACTIVE)

    def update(self, pod: Object, now: float) -> None:
        """A waiting pod in its new state. The change may remove the reason of its refusal."""
        uid = uid_of(pod)
        item = self._items[uid]
        change = own_change(item.pod, pod)
        item.pod = pod
        if item.pool is Pool.GATED and not is_gated(pod):
            self._move(item, Pool.ACTIVE)
        elif item.pool is Pool.UNSCHEDULABLE and self._worth(item, change):
            self._retry(item, now)

    def note(self, old: Object, pod: Object) -> None:
        """A pod in flight has changed; counts when it comes back."""
        self._in_flight[uid_of(pod)].append(own_change(old, pod))

    def delete(self, uid: str) -> None:
        """Drop a waiting pod; one in flight ends with ``done`` or is not put back."""
        self._items.pop(uid, None)

    def pop(self, now: float) -> QueuedPod | None:
        """Take the next pod into flight, or None if all must wait."""
        self._flush(now)
        item = self._first_of(self._active) or self._first_of(self._refused)
        if item is not None:
            del self._items[item.uid]
            self._in_flight[item.uid] = []
        return item

    def done(self, uid: str) -> None:
        """The cycle is over: the pod is being bound, or gone."""
        self._in_flight.pop(uid, None)

    def requeue_failed(self, item: QueuedPod, pod: Object, now: float) -> None:
        """An attempt ended with an error, not a refusal: another try after the backoff."""
        self.done(item.uid)
        self._put_back(item, pod, now)
        item.errors += 1
        self._retry(item, now)

    def requeue_rejected(self, item: QueuedPod, pod: Object, rejectors: frozenset[str], now: float) -> None:
        """Refused by ``rejectors``: wait for a change, unless one came while the attempt was under way."""
        if not rejectors:
            self.requeue_failed(item, pod, now)
            return
        changes = self._in_flight.pop(item.uid, [])
        self._put_back(item, pod, now)
        item.rejectors = rejectors
        item.refusals += 1
        item.errors = 0
        if any(self._worth(item, change) for change in changes):
            self._retry(item, now)
        else:
            self._move(item, Pool.UNSCHEDULABLE)

    def wake(
        self, changes: Sequence[Change], now: float, *, concerns: Callable[[Object], bool] = lambda pod: True
    ) -> None:
        """Something has changed: pods that it may help get another try, after their backoff."""
        for seen in self._in_flight.values():
            seen += changes
        for item in list(self._items.values()):
            if item.pool is not Pool.UNSCHEDULABLE or not concerns(item.pod):
                continue
            # A pod that is held back hears of nothing but pods that go.
            heard = [change for change in changes if not item.is_held or change is Change.POD_DELETED]
            if any(self._worth(item, change) for change in heard):
                self._retry(item, now)

    def activate(self, uid: str) -> None:
        """Another try immediately, whatever kept the pod."""
        item = self._items.get(uid)
        if item is not None and item.pool in (Pool.BACKOFF, Pool.UNSCHEDULABLE):
            self._move(item, Pool.ACTIVE)

    def next_deadline(self) -> float | None:
        """The time at which ``pop`` may answer differently by the clock alone; None if only an event can change that."""
        while self._timers and self._current(self._timers[0]) is None:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def backoff_of(self, attempts: int) -> float:
        """Seconds to wait after that many attempts: doubling from the initial to the largest backoff."""
        if attempts == 0:
            return 0.0
        # Past 2**60 the largest backoff has long been reached, and a float would overflow.
        return min(self._max, self._initial * 2.0 ** min(attempts - 1, 60))

    def _worth(self, item: QueuedPod, change: Change) -> bool:
        return not item.rejectors or wakes(item.rejectors, change)

    def _first_of(self, heap: list[tuple[Any, ...]]) -> QueuedPod | None:
        """Take the first pod of a heap that has not moved on since."""
        while heap:
            *_, ticket, uid = heapq.heappop(heap)
            item = self._items.get(uid)
            if item is not None and item.ticket == ticket:
                return item
        return None

    def _ready_at(self, item: QueuedPod) -> float:
        return item.since + self.backoff_of(item.errors or item.refusals)

    def _put_back(self, item: QueuedPod, pod: Object, now: float) -> None:
        item.pod, item.since, item.rejectors, item.is_held = pod, now, frozenset(), False
        self._items[item.uid] = item

    def _retry(self, item: QueuedPod, now: float) -> None:
        item.is_held = self._is_preempting(item.uid)
        if item.is_held:
            self._move(item, Pool.UNSCHEDULABLE)
        else:
            self._move(item, Pool.BACKOFF if self._ready_at(item) > now else Pool.ACTIVE)

    def _move(self, item: QueuedPod, pool: Pool) -> None:
        self._tickets += 1
        item.pool, item.ticket = pool, self._tickets
        if pool is Pool.ACTIVE:
            heapq.heappush(self._active, (-item.priority, item.since, item.ticket, item.uid))
        elif pool is Pool.BACKOFF:
            heapq.heappush(self._timers, (self._ready_at(item), item.ticket, item.uid))
            if item.rejectors:
                heapq.heappush(self._refused, (self._ready_at(item), -item.priority, item.ticket, item.uid))
        elif pool is Pool.UNSCHEDULABLE:
            heapq.heappush(self._timers, (item.since + LEFTOVER_SECONDS, item.ticket, item.uid))

    def _flush(self, now: float) -> None:
        while self._timers and self._timers[0][0] <= now:
            item = self._current(heapq.heappop(self._timers))
            if item is not None:
                self._move(item, Pool.ACTIVE)

    def _current(self, entry: tuple[float, int, str]) -> QueuedPod | None:
        """The pod of a timer, None if it has moved on since."""
        _, ticket, uid = entry
        item = self._items.get(uid)
        return item if item is not None and item.ticket == ticket else None
