"""Pods that come and go on a real API server, and what its watch shows of them and of their cards.

The cards are counted by the pods in the API server's history: a judge that knows nothing of the extender's book.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, Final

from clusters.api.api_client import ApiClient
from clusters.api.resources import PODS
from clusters.api.waiting import NotReachedError, eventually, for_each
from clusters.processes.progress import Progress
from gpushare import wire
from load.simulated.simulated_objects import pod_document
from load.simulated.simulated_world import NAMESPACE, Cards, Node, Pod, World

# How many pods are created, or ended, together: more than a second's worth never wait for each other.
_AT_ONCE: Final = 16
# How long the last pods may take to be bound, in seconds.
_LAST_SECONDS: Final = 60.0


class SeenCards:
    """The cards of all nodes. ``over_booked`` counts pods that came to a card that had no room for them.

    ``without_a_card`` counts those that came to a node without one, or with one that is not there.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._cards = Cards(nodes)
        self._bound: dict[str, Pod] = {}
        self.over_booked = 0
        self.without_a_card = 0

    def see(self, kind: str, pod: Mapping[str, Any]) -> None:
        """An event of the watch. A pod has its share from when it is bound until it is gone, whatever its states are in between."""
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
        if kind == "DELETED":
            if gone := self._bound.pop(name, None):
                self._cards.use(gone, -gone.units)
        elif node and name not in self._bound:
            index = (pod["metadata"].get("annotations") or {}).get(wire.ANNOTATION_INDEX, "")
            card = int(index) if index.isdecimal() and self._cards.size(node, int(index)) else None
            units = (int(one["resources"]["limits"][wire.RESOURCE_MEMORY]) for one in pod["spec"]["containers"])
            self._bound[name] = bound = Pod(name, sum(units), node, card)
            self._cards.use(bound, bound.units)
            self.without_a_card += card is None
            self.over_booked += card is not None and self._cards.used[node, card] > self._cards.size(node, card)


class Churn:
    """Pods come at a rate; for each that is bound one that runs ends."""

    def __init__(self, api: ApiClient, world: World, rate: int, seconds: int) -> None:
        """``rate``: pods a second, for this many ``seconds``."""
        self._api = api
        self._rate, self._seconds = rate, seconds
        self._world = world
        self._rng = random.Random(1)  # an order, no secret
        self._cards = SeenCards(world.nodes)
        self._counts = Counter[str]()
        # In no order.
        self._running: list[str] = []
        # All that run or ran, and are not gone.
        self._known: set[str] = set()
        self._waiting: set[str] = set()
        self._to_end = asyncio.Queue[str]()

    async def look(self) -> tuple[int, int]:
        """How many pods run, and how many wait."""
        return len(self._running), len(self._waiting)

    def counted(self) -> dict[str, int]:
        """The events, as far as the watch has shown them."""
        names = ("created", "binds", "ended")
        return {name: self._counts[name] for name in names} | {
            "over_booked": self._cards.over_booked,
            "without_a_card": self._cards.without_a_card,
            "waiting": len(self._waiting),
            "running": len(self._running),
        }

    async def follow(self) -> None:
        """Keep the picture of all pods, and name the next one to end; ends by cancellation."""
        async for kind, pod in self._api.watch(PODS, NAMESPACE):
            if kind == "SYNCED":
                continue
            self._cards.see(kind, pod)
            name = pod["metadata"]["name"]
            if kind == "DELETED":
                self._counts["ended"] += 1
                self._known.discard(name)
                continue
            if pod["spec"].get("nodeName") and name in self._waiting:
                self._waiting.remove(name)
                self._counts["binds"] += 1
                if self._running:
                    self._to_end.put_nowait(self._any_that_runs())
            if (pod.get("status") or {}).get("phase") == "Running" and name not in self._known:
                self._known.add(name)
                self._running.append(name)

    async def come(self, progress: Progress) -> None:
        """Each pod at its time, whatever becomes of those before; until all are bound, or a minute has passed. Raises ApiError."""
        begun = time.monotonic()
        sizes, weights = list(self._world.sizes), list(self._world.sizes.values())

        async def create(number: int) -> None:
            await asyncio.sleep(max(begun + number / self._rate - time.monotonic(), 0))
            pod = Pod(f"comes-{number:07}", self._rng.choices(sizes, weights)[0])
            # Before the watch can show it.
            self._waiting.add(pod.name)
            await self._api.create(pod_document(pod))
            self._counts["created"] += 1
            progress.detail = f"{self._counts['binds']} bound"

        await for_each(create, range(self._rate * self._seconds), _AT_ONCE)
        # Those that still wait after that are counted, which breaks a promise.
        with contextlib.suppress(NotReachedError):
            await eventually(self.look, lambda seen: not seen[1], "all are bound", seconds=_LAST_SECONDS)

    def endings(self) -> Iterable[Coroutine[Any, Any, None]]:
        """Workers that end pods, each until it is cancelled."""
        return (self._end() for _ in range(_AT_ONCE))

    async def _end(self) -> None:
        while True:
            await self._api.delete(PODS, await self._to_end.get(), NAMESPACE)

    def _any_that_runs(self) -> str:
        """From now on it may be ended."""
        at = self._rng.randrange(len(self._running))
        self._running[at], self._running[-1] = self._running[-1], self._running[at]
        return self._running.pop()
