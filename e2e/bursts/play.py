"""Play a burst on a cluster, wait until nothing more is expected, and read the result."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from clusters.api.api_client import Object
from clusters.api.waiting import NotReachedError, eventually, until_next_look
from e2e.bursts.burst_plan import Burst
from e2e.bursts.judge import (
    Seen,
    findings,
    is_kept_out,
    is_running,
    is_squeezed_out,
    is_turned_away,
    told_other_sums,
    unsettled,
)
from e2e.bursts.result import Result
from e2e.checkers.overcommit import Sizes, check_inspect
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
        self._uuids: dict[str, dict[int, str]] = {}

    async def play(self, burst: Burst) -> Result:
        """Steps, settling, verdict, and the namespace as empty as before."""
        started, repairs = time.monotonic(), self._repairs()
        self._replacements = self._squeezed_out = self._kept_out = 0
        result = Result(burst.seed, pods=sum(len(step.create) for step in burst.steps))
        await self._steps(burst)
        result.findings = await self._settle(burst)
        seen = await self._look()
        result.findings += findings(seen, frozenset(self.nodes) if self._is_real else burst.restarted)
        result.other_sums = told_other_sums(seen)
        if not result.findings:
            result.findings = await self._check_book(seen)
        result.running = sum(map(is_running, seen.pods))
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
        await eventually(self._held, lambda held: not any(held.values()), "no process holds a card")

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

    async def _look(self) -> Seen:
        pods = await self.observer.pods()
        sizes = await self._sizes()
        running = [pod for pod in pods if is_running(pod)]
        logs = await asyncio.gather(*(self.observer.variables(pod) for pod in running))
        told = {pod["metadata"]["name"]: variables for pod, variables in zip(running, logs, strict=True)}
        return Seen(pods, told, await self._held(), self._uuids, sizes)

    async def _sizes(self) -> Sizes:
        """The cards of these clusters do not change."""
        if not self._known:
            self._known = await self.observer.sizes()
            self._uuids = {node: self.observer.uuids(node) for node in self._known}
        return self._known

    async def _held(self) -> dict[tuple[str, int], int]:
        """MiB that processes hold on each card, as the cards themselves say."""
        return {
            (node, card["index"]): sum(process["mib"] for process in card["processes"])
            for node in self.nodes
            for card in self._cluster.cards(node)
        }

    async def _check_book(self, seen: Seen) -> list[str]:
        async def differences() -> list[str]:
            return check_inspect(await self.observer.inspect(), seen.pods, seen.sizes)

        try:
            await eventually(differences, lambda found: not found, "the extender's book is the API's", seconds=10)
        except NotReachedError:
            return await differences()
        return []

    def _repairs(self) -> int:
        return sum(len(_REPAIR.findall(self._cluster.log(_PROGRAM, node))) for node in self.nodes)


async def _alone(busy: asyncio.Lock, work: Awaitable[None]) -> None:
    async with busy:
        await work
