"""The pods that wait: which one is next, and when.

Pure: the clock's reading is passed in, in seconds. A pod lies in one pool:

    active --pop--> in flight --done--> (out)
      ^ ^              | requeue_failed, requeue_rejected with a wake-up meanwhile
      | +--- backoff <-+
      |        ^       | requeue_rejected
      +--------+--- unschedulable        (wake, own change, or five minutes)
    gated: not touched until the gates are gone
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

from clusters.api_client import Object
from clusters.embedded.scheduling.pod_requests import is_gated, uid_of
from clusters.embedded.scheduling.wakes import NEVER, ClusterEvent, wakes

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
    attempts: int = 0
    rejectors: frozenset[str] = frozenset()
    # Heap entries made before the last move are stale; this tells them apart.
    ticket: int = 0

    @property
    def uid(self) -> str:
        """The pod's identity."""
        return uid_of(self.pod)

    @property
    def priority(self) -> int:
        """The pod's priority; higher goes first."""
        return int(self.pod["spec"].get("priority") or 0)


class SchedulingQueue:
    """Active, backoff, unschedulable and gated pods, and those in flight."""

    def __init__(self, initial_backoff_seconds: float = 1, max_backoff_seconds: float = 10) -> None:
        self._initial = initial_backoff_seconds
        self._max = max_backoff_seconds
        self._items: dict[str, QueuedPod] = {}
        self._in_flight: dict[str, set[ClusterEvent]] = {}
        self._active: list[tuple[int, float, int, str]] = []
        # When a pod's time in BACKOFF or UNSCHEDULABLE is up.
        self._timers: list[tuple[float, int, str]] = []
        self._tickets = 0

    def pool_of(self, uid: str) -> Pool | None:
        """The pool of a pod, None where it is in none."""
        item = self._items.get(uid)
        return None if item is None else item.pool

    def is_in_flight(self, uid: str) -> bool:
        """Whether an attempt for the pod is under way, binding included."""
        return uid in self._in_flight

    def add(self, pod: Object, now: float) -> None:
        """A new pod: next in line behind its equals, unless gates hold it."""
        item = QueuedPod(pod, now, Pool.ACTIVE)
        self._items[item.uid] = item
        self._move(item, Pool.GATED if is_gated(pod) else Pool.ACTIVE)

    def update(self, pod: Object, now: float, *, own_change: bool) -> None:
        """A waiting pod as it looks now; ``own_change``: more than its status has changed."""
        uid = uid_of(pod)
        if uid in self._in_flight:
            if own_change:
                self._in_flight[uid].add(ClusterEvent.OWN)
            return
        item = self._items[uid]
        item.pod = pod
        if item.pool is Pool.GATED and not is_gated(pod):
            self._move(item, Pool.ACTIVE)
        elif item.pool is Pool.UNSCHEDULABLE and own_change:
            self._retry(item, now)

    def delete(self, uid: str) -> None:
        """Drop a waiting pod; one in flight ends with ``done`` or is not put back."""
        self._items.pop(uid, None)

    def pop(self, now: float) -> QueuedPod | None:
        """Take the next pod into flight, or None where all must wait."""
        self._flush(now)
        while self._active:
            *_, ticket, uid = heapq.heappop(self._active)
            item = self._items.get(uid)
            if item is not None and item.ticket == ticket:
                del self._items[uid]
                self._in_flight[uid] = set()
                item.attempts += 1
                return item
        return None

    def done(self, uid: str) -> None:
        """The attempt is over and the pod does not come back: bound, or gone."""
        self._in_flight.pop(uid, None)

    def requeue_failed(self, item: QueuedPod, pod: Object, now: float) -> None:
        """Nobody is to blame (an error, not a refusal): another try after the backoff."""
        self.done(item.uid)
        self._put_back(item, pod, now)
        self._retry(item, now)

    def requeue_rejected(self, item: QueuedPod, pod: Object, rejectors: frozenset[str], now: float) -> None:
        """Refused by ``rejectors``: wait for a change, unless one came while the attempt was under way."""
        events = self._in_flight.pop(item.uid, set())
        self._put_back(item, pod, now)
        item.rejectors = rejectors
        if not rejectors or any(wakes(event, rejectors) for event in events):
            self._retry(item, now)
        else:
            self._move(item, Pool.UNSCHEDULABLE)

    def wake(self, events: Iterable[ClusterEvent], now: float, *, except_uid: str = "") -> None:
        """Something has changed: pods that it may help get another try, after their backoff."""
        events = set(events) - NEVER
        if not events:
            return
        for uid, seen in self._in_flight.items():
            if uid != except_uid:
                seen |= events
        for item in self._items.values():
            if item.pool is Pool.UNSCHEDULABLE and any(wakes(event, item.rejectors) for event in events):
                self._retry(item, now)

    def next_deadline(self) -> float | None:
        """When ``pop`` may answer differently by the clock alone; None where only an event can change that."""
        while self._timers and self._current(self._timers[0]) is None:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def backoff_of(self, attempts: int) -> float:
        """Seconds to wait after that many attempts: doubling from the initial to the largest backoff."""
        # Past 2**60 the largest backoff has long been reached, and a float would overflow.
        return min(self._max, self._initial * 2.0 ** min(max(attempts - 1, 0), 60))

    def _ready_at(self, item: QueuedPod) -> float:
        return item.since + self.backoff_of(item.attempts)

    def _put_back(self, item: QueuedPod, pod: Object, now: float) -> None:
        item.pod, item.since, item.rejectors = pod, now, frozenset()
        self._items[item.uid] = item

    def _retry(self, item: QueuedPod, now: float) -> None:
        self._move(item, Pool.BACKOFF if self._ready_at(item) > now else Pool.ACTIVE)

    def _move(self, item: QueuedPod, pool: Pool) -> None:
        self._tickets += 1
        item.pool, item.ticket = pool, self._tickets
        if pool is Pool.ACTIVE:
            heapq.heappush(self._active, (-item.priority, item.since, item.ticket, item.uid))
        elif pool is Pool.BACKOFF:
            heapq.heappush(self._timers, (self._ready_at(item), item.ticket, item.uid))
        elif pool is Pool.UNSCHEDULABLE:
            heapq.heappush(self._timers, (item.since + LEFTOVER_SECONDS, item.ticket, item.uid))

    def _flush(self, now: float) -> None:
        while self._timers and self._timers[0][0] <= now:
            item = self._current(heapq.heappop(self._timers))
            if item is not None:
                self._move(item, Pool.ACTIVE)

    def _current(self, entry: tuple[float, int, str]) -> QueuedPod | None:
        """The pod of a timer, None where it has moved on since."""
        _, ticket, uid = entry
        item = self._items.get(uid)
        return item if item is not None and item.ticket == ticket else None
