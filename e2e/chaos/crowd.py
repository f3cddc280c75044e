"""Pods that come and go so that cards are always full and some always wait."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator
from typing import Final

from clusters.api.api_client import Object
from clusters.api.waiting import eventually, meanwhile, until
from e2e.builders import gpu_pod
from e2e.bursts.judge import all_run, is_running, leaves
from e2e.checkers.overcommit import is_over
from e2e.checkers.pod_requests import units_of
from e2e.extender import schedulers
from e2e.live_history import LiveHistory
from e2e.observer import Observer

# The part of all units that stays booked; pods leave only as far as this allows.
FULL: Final = 0.95
# At least this number waits, and this number of them for one unit: one always fits into the rest.
_WAIT: Final = 12
_SMALL_WAIT: Final = 6
_MOST_UNITS: Final = 5
_TURN_SECONDS: Final = 0.1
_SETTLE_SECONDS: Final = 180.0


class Crowd:
    """The pods of one namespace; ``units`` are those that they may have, of which ``full`` is the part that stays booked."""

    def __init__(
        self,
        observer: Observer,
        history: LiveHistory,
        units: int,
        seed: int,
        *,
        full: float = FULL,
        scheduler: str | None = schedulers.NAME,
    ) -> None:
        self.created = 0
        self.refused: Counter[str] = Counter()
        """Pods that a kubelet did not let in, by its reason; each is replaced."""
        self.fill: list[float] = []
        """The part of all units that was booked, turn by turn."""
        self._observer = observer
        self._history = history
        self._units = units
        self._full = full
        self._scheduler = scheduler
        self._rng = random.Random(seed)
        self._numbers = itertools.count(1)
        self._next = ""

    @contextlib.asynccontextmanager
    async def milling(self) -> AsyncIterator[None]:
        """They come and go while inside."""
        async with meanwhile(self._mill()):
            yield

    async def full(self) -> None:
        """Wait until the cards are as full as intended."""
        await until(
            lambda: [0.0, *self.fill][-1],
            lambda seen: seen >= self._full,
            f"{self._full:.0%} of all units are booked",
            seconds=_SETTLE_SECONDS,
        )

    async def all_run(self) -> list[Object]:
        """Half of them leave, so that there is room for the others; wait until each of these runs."""
        for number, pod in enumerate(self._staying()):
            if number % 2:
                await self._observer.delete(pod["metadata"]["name"], 1)

        async def look() -> list[Object]:
            await self._replace_refused()
            return await self._observer.pods()

        return await eventually(look, all_run, "every pod runs", seconds=_SETTLE_SECONDS)

    async def _mill(self) -> None:
        while True:
            await self._replace_refused()
            waiting = [pod for pod in self._staying() if not pod["spec"].get("nodeName")]
            small = sum(units_of(pod) == 1 for pod in waiting)
            for _ in range(_SMALL_WAIT - small):
                await self._create(1)
            for _ in range(_WAIT - _SMALL_WAIT - (len(waiting) - small)):
                await self._create(self._rng.randint(2, _MOST_UNITS))
            self.fill.append(sum(self._history.booked().values()) / self._units)
            for pod in self._wholeaves():
                await self._observer.delete(pod["metadata"]["name"], 1)
            await asyncio.sleep(_TURN_SECONDS)

    def _wholeaves(self) -> list[Object]:
        """Running pods that can go with the cards still full; those that leave already count as gone.

        Who is next is drawn, and waits until there is enough without it: else only small ones would ever go.
        """
        staying = self._staying()
        spare = sum(units_of(pod) for pod in staying if pod["spec"].get("nodeName")) - self._full * self._units
        running = {pod["metadata"]["name"]: pod for pod in staying if is_running(pod)}
        leaving = []
        while running:
            if self._next not in running:
                self._next = self._rng.choice(list(running))
            pod = running.pop(self._next)
            spare -= units_of(pod)
            if spare < 0:
                break
            leaving.append(pod)
        return leaving

    def _staying(self) -> list[Object]:
        return [pod for pod in self._history.pods(self._observer.namespace) if not leaves(pod) and not is_over(pod)]

    async def _replace_refused(self) -> None:
        for pod in self._history.pods(self._observer.namespace):
            if pod["status"].get("phase") == "Failed" and not leaves(pod):
                self.refused[str(pod["status"].get("reason"))] += 1
                await self._observer.delete(pod["metadata"]["name"], 0)
                await self._create(units_of(pod))

    async def _create(self, units: int) -> None:
        self.created += 1
        await self._observer.create(gpu_pod(f"p{next(self._numbers):04}", units, scheduler=self._scheduler))
