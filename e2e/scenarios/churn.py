"""Pods that come and go on one node while its programs restart, each replaced as an owner would if it is turned away."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from clusters.api.api_client import Object
from clusters.api.waiting import NotReachedError, eventually, meanwhile, until
from e2e import spec
from e2e.builders import gpu_pod
from e2e.bursts.judge import all_run, is_running, is_turned_away, leaves, why
from e2e.checkers.right_card import wrong_totals
from e2e.observer import Observer

# How many there are beside those that stay, and what each container asks for: together they always have room.
_COUNT: Final = 5
_AMOUNTS: Final = ((1,), (2,), (1, 1))
_PAUSE_SECONDS: Final = 0.3
# Against hangs, in seconds: a container that failed while its plugin was away is tried again after minutes at most.
_SETTLE_SECONDS: Final = 180.0


class Churn:
    """The pods of one node of one namespace; ``stay`` are those that are never deleted."""

    def __init__(self, observer: Observer, node: str, seed: int) -> None:
        self.turned_away: Counter[str] = Counter()
        """How many pods the kubelet refused, by what it said."""
        self.created = 0
        self.wrong_totals = 0
        """How many containers were told another pod's sum (``e2e.checkers.right_card.wrong_totals``)."""
        self._observer = observer
        self._node = node
        self._stay: frozenset[str] = frozenset()
        self._rng = random.Random(seed)
        self._numbers = itertools.count(1)

    async def settle_in(self) -> dict[str, tuple[Any, ...]]:
        """Pods that stay: nine units on one card, two containers of three and two on the other; which containers, on which card."""
        await self._observer.run(gpu_pod("nine", 9, node=self._node))
        await self._observer.create(gpu_pod("three-two", 3, 2, node=self._node))
        self._stay = frozenset({"nine", "three-two"})
        # A pod runs as soon as one of its containers does.
        await eventually(self._observer.pods, lambda pods: all(map(is_running, pods)), "all containers run")
        return await self.lives()

    async def lives(self) -> dict[str, tuple[Any, ...]]:
        """The containers of the pods that stay, how often each was started, and their cards."""
        pods = await self._observer.running(*sorted(self._stay))
        return {
            pod["metadata"]["name"]: (
                sorted(
                    (one["name"], one["containerID"], one["restartCount"]) for one in pod["status"]["containerStatuses"]
                ),
                pod["metadata"]["annotations"][spec.POD_INDEX],
            )
            for pod in pods
        }

    @contextlib.asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """Pods come and go while inside."""
        async with meanwhile(self._go_on()):
            yield

    async def settled(self) -> list[Object]:
        """Wait until each pod runs, and replace those that the kubelet refused; the pods. Each refusal has been explained then."""

        async def look() -> list[Object]:
            await self._replace_refused()
            return await self._observer.pods()

        try:
            return await eventually(look, all_run, "every pod runs", seconds=_SETTLE_SECONDS)
        except NotReachedError as error:
            raise NotReachedError(
                f"{error}; the extender's book: {await self._observer.inspect(f'/{self._node}')}"
            ) from error

    async def count_wrong_totals(self, pods: list[Object]) -> None:
        """The names of those that run now."""
        for pod in pods:
            self.wrong_totals += wrong_totals(pod, await self._observer.variables(pod))

    async def creates_more_than(self, count: int) -> None:
        """Wait until more pods than this number have been created."""
        await until(lambda: self.created, lambda seen: seen > count, "a pod has come", seconds=_SETTLE_SECONDS)

    async def _go_on(self) -> None:
        while True:
            await self._replace_refused()
            others = [pod for pod in await self._observer.pods() if pod["metadata"]["name"] not in self._stay]
            staying = [pod for pod in others if not leaves(pod)]
            if len(staying) < _COUNT:
                await self._create()
            elif len(others) == _COUNT:
                # One at a time: while no kubelet lets pods go, they do not pile up.
                await self._observer.delete(self._rng.choice(staying)["metadata"]["name"], 1)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _replace_refused(self) -> None:
        for pod in await self._observer.pods():
            if pod["status"].get("phase") != "Failed" or leaves(pod):
                continue
            # No other reason is known for which a pod of this test may fail.
            assert is_turned_away(pod, frozenset({self._node})), why(pod)
            assert pod["metadata"]["name"] not in self._stay, why(pod)
            self.turned_away[reason(pod)] += 1
            await self._observer.delete(pod["metadata"]["name"], 0)
            await self._create()

    async def _create(self) -> None:
        self.created += 1
        amounts = self._rng.choice(_AMOUNTS)
        await self._observer.create(gpu_pod(f"p{next(self._numbers):03}", *amounts, node=self._node))


def reason(pod: Mapping[str, Any]) -> str:
    """The kubelet's reason for a pod that it refused, without the pod's own names."""
    status = pod["status"]
    text = status.get("message", "").partition("Allocate failed due to ")[2].partition(", which is")[0]
    return f"{status.get('reason')}: {text}" if text else str(status.get("reason"))
