"""Play a burst on a cluster, wait until nothing more is expected, and read the result."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from clusters.api.api_client import Object
from clusters.api.waiting import NotReachedError, eventually, until_next_look
from e2e import spec
from e2e.bursts.burst_plan import Burst
from e2e.bursts.judge import (
    held_memory,
    is_kept_out,
    is_running,
    is_squeezed_out,
    is_turned_away,
    started_again,
    unsettled,
)
from e2e.bursts.result import Result
from e2e.checkers.extender_answers import book_beyond_cards, book_differs
from e2e.checkers.history import Asked, Entry, Listed
from e2e.checkers.judgement import Finding, judge
from e2e.checkers.overcommit import Sizes, over_booked, unreadable
from e2e.checkers.right_card import SUM, right_card
from e2e.observer import Observer

# Against hangs, in seconds: a burst that has not settled by then never will.
SETTLE_SECONDS: Final = 60.0
# The device plugin's log lines after it has put two annotations right.
_REPAIR: Final = re.compile(r"\bexchanged\b|\bmoved\b")
_PROGRAM: Final = "device_plugin"


class Player:
    """Plays one burst after the other in one namespace.

    ``restart_plugin`` restarts a node's device plugin; if it is not given, that is the cluster's.
    """

    def __init__(
        self,
        observer: Observer,
        nodes: Sequence[str],
        *,
        settle_seconds: float = SETTLE_SECONDS,
        restart_plugin: Callable[[str], Awaitable[None]] | None = None,
        is_real: bool = False,
    ) -> None:
        self.observer = observer
        # A real kubelet passes over pods that are deleted before it has looked at them, which no other program can know.
        self._is_real = is_real
        self.nodes = nodes
        self._cluster = observer.cluster
        self._restart_plugin = restart_plugin or self._restart_clusters_plugin
        self._settle_seconds = settle_seconds
        self._replacements = 0
        self._squeezed_out = 0
        self._kept_out = 0
        self._known: Sizes = {}

    async def play(self, burst: Burst) -> Result:
        """Steps, settling, verdict, and the namespace as empty as before."""
        started, repairs = time.monotonic(), self._repairs()
        self._replacements = self._squeezed_out = self._kept_out = 0
        result = Result(burst.seed, pods=sum(len(step.create) for step in burst.steps))
        await self._steps(burst)
        result.findings = await self._settle(burst)
        other_sums = frozenset(self.nodes) if self._is_real else burst.restarted
        seen = await self._look(result)
        found = judge(seen, unreadable, over_booked, right_card, started_again, held_memory)
        result.findings += [str(one) for one in found if one.rule != SUM or one.node not in other_sums]
        result.other_sums = sum(one.rule == SUM for one in found)
        if not result.findings:
            result.findings = await self._check_book(seen)
        await self.clear()
        result.replaced, result.squeezed_out = self._replacements, self._squeezed_out
        result.kept_out = self._kept_out
        result.repairs = self._repairs() - repairs
        result.seconds = time.monotonic() - started
        return result

    def recent_logs(self, lines: int = 80) -> str:
        """The last lines of the device plugins' logs, for a reader of a burst's findings."""
        tails = {node: self._cluster.log(_PROGRAM, node).splitlines()[-lines:] for node in self.nodes}
        return "\n".join(f"{node}: {line}" for node, tail in tails.items() for line in tail)

    async def clear(self) -> None:
        """Take all pods away, and wait until no process holds a card."""
        await self.observer.clear()
        await eventually(self._is_held, lambda held: not held, "no process holds a card")

    async def _steps(self, burst: Burst) -> None:
        async with asyncio.TaskGroup() as restarts:
            busy: dict[str, asyncio.Lock] = {node: asyncio.Lock() for node in self.nodes}
            for step in burst.steps:
                for node, restart in (
                    (step.restart_plugin, self._restart_plugin),
                    (step.restart_kubelet, self._cluster.restart_kubelet),
                ):
                    if node:
                        restarts.create_task(_alone(busy[node], restart(node)))
                await asyncio.gather(
                    self.observer.create(*(pod.manifest() for pod in step.create)),
                    *(self.observer.delete(name, 1) for name in step.delete),
                )
                await asyncio.sleep(step.pause_seconds)

    async def _restart_clusters_plugin(self, node: str) -> None:
        await self._cluster.kill(_PROGRAM, node)
        await self._cluster.launch(_PROGRAM, node)

    async def _settle(self, burst: Burst) -> list[str]:
        """Until every pod runs or waits for a reason that holds; a pod turned away by a restart is replaced, as an owner would."""
        expected, sizes = frozenset(burst.staying), await self._sizes()
        left: list[str] = []
        begun = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self._settle_seconds):
                while True:
                    pods = await self.observer.pods()
                    turned_away = [pod for pod in pods if is_turned_away(pod, burst.restarted)]
                    squeezed_out = [pod for pod in pods if is_squeezed_out(pod, burst.kubelets)]
                    kept_out = [pod for pod in pods if self._is_real and is_kept_out(pod) and pod not in turned_away]
                    self._squeezed_out += len(squeezed_out)
                    self._kept_out += len(kept_out)
                    refused = turned_away + squeezed_out + kept_out
                    if not refused and not (left := unsettled(pods, expected, sizes)):
                        return []
                    await asyncio.gather(*(self._replace(pod, burst) for pod in refused))
                    await asyncio.sleep(until_next_look(begun))
        except TimeoutError:
            return left

    async def _replace(self, pod: Object, burst: Burst) -> None:
        await self.observer.delete(pod["metadata"]["name"], 0)
        plan = burst.staying.get(pod["metadata"]["labels"]["burst-pod"])
        if plan is not None:
            self._replacements += 1
            await self.observer.create(plan.manifest(f"-r{self._replacements}"))

    async def _look(self, result: Result) -> list[Entry]:
        pods = await self.observer.pods()
        running = [pod for pod in pods if is_running(pod)]
        result.running = len(running)
        told = await asyncio.gather(*(self.observer.told([pod]) for pod in running))
        cards = [self.observer.cards(node) for node in self.nodes]
        return [Listed(0.0, pods), *cards, *(entry for entries in told for entry in entries)]

    async def _sizes(self) -> Sizes:
        """The cards of these clusters do not change."""
        if not self._known:
            self._known = await self.observer.sizes()
        return self._known

    async def _is_held(self) -> bool:
        """Does any process hold a card, as the cards themselves say?"""
        cards = [card for node in self.nodes for card in self.observer.cards(node).cards.values()]
        return any(card.held_mib for card in cards)

    async def _check_book(self, seen: list[Entry]) -> list[str]:
        async def differences() -> list[Finding]:
            asked = Asked(0.0, spec.INSPECT, None, await self.observer.inspect())
            return judge([*seen, asked], book_beyond_cards, book_differs)

        try:
            await eventually(differences, lambda found: not found, "the extender's book is the API's", seconds=10)
        except NotReachedError:
            return list(map(str, await differences()))
        return []

    def _repairs(self) -> int:
        return sum(len(_REPAIR.findall(self._cluster.log(_PROGRAM, node))) for node in self.nodes)


async def _alone(busy: asyncio.Lock, work: Awaitable[None]) -> None:
    async with busy:
        await work
