"""The state of a simulated API server: the world, and all that has happened to it since."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from load.simulated.simulated_objects import Cards, Pod, World, node_object, pod_object

NODES: Final = "/api/v1/nodes"
PODS: Final = "/api/v1/pods"
# One of this many events is about a node, the others about pods.
_NODE_EVENT_OF: Final = 16
# Events that a watch may have missed.
REMEMBERED: Final = 2000
# Lists that are read page by page at the same time, each as it was when its first page was asked for.
_LISTS: Final = 8
# So many bindings another extender may not have seen yet: some seconds of a run.
_UNSEEN_BINDS: Final = 64
# So many over-booked cards are named.
_MOST_NAMED: Final = 32


class Event(NamedTuple):
    """A line of the watch at ``path``, and its version."""

    path: str
    version: int
    line: bytes


@dataclass(frozen=True, slots=True)
class Collection:
    """All items of a kind as they were at a version; ``make`` makes the one at a place."""

    version: int
    count: int
    make: Callable[[int], bytes]


class Cluster:
    """The world and what has happened to it since; ``first_version`` is that of its lists before anything has.

    A pod ends for each that is bound, so that as many run at the end of a load as at its beginning.
    """

    def __init__(self, world: World, first_version: int = 1000) -> None:
        self.nodes = world.nodes
        self.first_version = self.version = first_version
        self.counts: Counter[str] = Counter()
        self.events: deque[Event] = deque(maxlen=REMEMBERED)
        self._sizes, self._weights = list(world.sizes), list(world.sizes.values())
        self._running = list(world.running)
        self._cards = Cards(world.nodes)
        for pod in world.running:
            self._cards.use(pod, pod.units)
        self._waiting: dict[str, Pod] = {}
        # The objects of pods that have waited, so that they can be asked for.
        self._bound: dict[str, Pod] = {}
        # The node of each pod that was bound, by the pod's name.
        self.placed: dict[str, str] = {}
        self._recent: deque[tuple[tuple[str, int | None], int]] = deque(maxlen=_UNSEEN_BINDS)
        # Units booked on cards that were over-booked, and units of the card; of some of them. None: all cards of the node.
        self.over_booked_cards: dict[tuple[str, int | None], tuple[int, int]] = {}
        self._rng = random.Random(1)  # an order, no secret
        self._lists: dict[tuple[str, int], Collection] = {}

    @property
    def running(self) -> Sequence[Pod]:
        """The pods that run now, in no order."""
        return self._running

    def collection(self, path: str, version: int | None = None) -> Collection | None:
        """All items of a kind as they are now, or as they were when the list of that version began; None for a list of long ago."""
        if version is not None:
            return self._lists.get((path, version))
        now = self.version
        if path == NODES:
            items = self.nodes
            made = Collection(now, len(items), lambda at: node_object(items[at], now))
        elif path == PODS:
            pods = (*self._running, *self._waiting.values())
            made = Collection(now, len(pods), lambda at: pod_object(pods[at], now))
        else:
            made = Collection(now, 0, lambda _: b"")
        self._lists[path, now] = made
        while len(self._lists) > _LISTS:
            del self._lists[next(iter(self._lists))]
        return made

    def pod(self, name: str) -> bytes | None:
        """One of the pods that wait, or have waited and still run; None for any other."""
        found = self._waiting.get(name) or self._bound.get(name)
        return pod_object(found, self.version) if found else None

    def arrive(self) -> tuple[Pod, Event]:
        """A pod comes, and waits: of one of the sizes that pods of this world have."""
        self.counts["created"] += 1
        units = self._rng.choices(self._sizes, self._weights)[0]
        pod = Pod(f"comes-{self.counts['created']:07}", units)
        self._waiting[pod.name] = pod
        return pod, self._event("ADDED", PODS, pod_object(pod, self.version + 1))

    def bind(self, name: str, node: str, card: int | None) -> list[Event]:
        """A pod gets its node, and another ends; nothing for one that does not wait.

        Without a card only the sum of the node's cards can be judged.
        """
        pod = self._waiting.pop(name, None)
        if pod is None:
            return []
        bound = pod._replace(node=node, card=card, card_units=self._cards.size(node, 0))
        self._bound[name] = bound
        self.placed[name] = node
        self.counts["binds"] += 1
        self.counts["binds_without_card"] += card is None
        self._cards.use(bound, bound.units)
        self._judge(bound)
        told = [self._event("MODIFIED", PODS, pod_object(bound, self.version + 1))]
        # Before it runs itself, so that it does not end immediately.
        told += self._end_one()
        self._running.append(bound)
        return told

    def _judge(self, bound: Pod) -> None:
        """Count a pod that has more than its card holds, as the API shows it: with one extender this never happens."""
        place, size = (bound.node, bound.card), self._cards.size(bound.node, bound.card)
        is_over = self._cards.used[place] > size
        self.counts["over_booked"] += is_over
        # Extenders that do not know of each other see each other's bindings a moment later.
        unseen = sum(units for where, units in self._recent if where == place)
        self.counts["over_booked_knowingly"] += is_over and self._cards.used[place] - unseen > size
        self._recent.append((place, bound.units))
        if is_over and (len(self.over_booked_cards) < _MOST_NAMED or place in self.over_booked_cards):
            self.over_booked_cards[place] = (self._cards.used[place], size)

    def next_event(self) -> Event:
        """The status of some pod, or seldom of some node, has changed, as far as its version; the book is the same after it."""
        self.counts["events"] += 1
        if self.counts["events"] % _NODE_EVENT_OF == 0 or not self._running:
            return self._event("MODIFIED", NODES, node_object(self._rng.choice(self.nodes), self.version + 1))
        return self._event("MODIFIED", PODS, pod_object(self._rng.choice(self._running), self.version + 1))

    def _end_one(self) -> list[Event]:
        """Some pod that runs ends and is gone."""
        if not self._running:
            return []
        at = self._rng.randrange(len(self._running))
        self._running[at], self._running[-1] = self._running[-1], self._running[at]
        gone = self._running.pop()
        self._bound.pop(gone.name, None)
        self._cards.use(gone, -gone.units)
        self.counts["ended"] += 1
        return [self._event("DELETED", PODS, pod_object(gone, self.version + 1))]

    def _event(self, kind: str, path: str, item: bytes) -> Event:
        self.version += 1
        event = Event(path, self.version, b'{"type":"%b","object":%b}\n' % (kind.encode(), item))
        self.events.append(event)
        return event
