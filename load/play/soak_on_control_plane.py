"""The soak on a real etcd, kube-apiserver and kube-scheduler: pods come and go, kwok reports them as running.

Cards are counted by the pods in the API server's history: a judge that knows nothing of the extender's book.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from clusters.api.api_client import ApiClient
from clusters.api.resources import PODS
from clusters.api.waiting import NotReachedError, eventually, for_each
from clusters.processes.progress import Progress
from clusters.processes.scratch import scratch_folder
from gpushare import wire
from load.bench.bench_servers import Bed, Server, start_extender
from load.play import soak
from load.play.play_running import OURS, audited, sample
from load.readings import samples as samples_of
from load.real_scheduler.measured_control_plane import scheduler_configuration
from load.real_scheduler.scheduler_figures import Spent, spent
from load.simulated.cluster_file import build, read
from load.simulated.on_control_plane import bring_up
from load.simulated.simulated_objects import pod_document
from load.simulated.simulated_world import NAMESPACE, Cards, Node, Pod, World

# Until all pods of the cluster run at first, in seconds: against hangs only.
_SETTLE_SECONDS: Final = 600.0
_ATTEMPT: Final = "scheduler: attempt "
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


async def measure(cluster: Path, rate: int, seconds: int, output: Path) -> dict[str, Any]:
    """All that the soak comes to, for the JSON file; what the programs log is left in the folder ``logs`` of the output.

    Raises ApiError, CannotMeasureError, ClusterError, LoadError, NotReachedError.
    """
    output.mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        # When all have ended, and whatever ended them.
        stack.callback(_keep_logs, folder, output / "logs")
        progress = stack.enter_context(Progress("load", f"{cluster.name}: laying it out", sys.stderr))
        world = build(read(cluster))
        site = await bring_up(world, folder, stack, progress)
        audits = ("--audit-interval", f"{soak.AUDIT_SECONDS}s")
        extender, _ = await start_extender(Bed.of(folder, stack), with_metrics=True, flags=audits)
        await site.plane.start_scheduler(scheduler_configuration(extender))
        churn = Churn(site.api, world, rate, seconds)
        outcome = await _play(churn, len(world.running), extender, progress)
        return {
            "cluster": {"file": cluster.name, "nodes": len(world.nodes)},
            "order": {"rate": rate, "seconds": seconds},
            "outcome": outcome,
            "rows": rows(await extender.metrics(), await site.plane.scheduler_metrics()),
        }


def _keep_logs(folder: Path, kept: Path) -> None:
    kept.mkdir(parents=True, exist_ok=True)
    for log in folder.glob("*.log"):
        shutil.copy(log, kept)


async def _play(churn: Churn, running: int, extender: Server, progress: Progress) -> dict[str, Any]:
    """Once so many pods run, let pods come and go; what was counted, and the extender's use."""
    samples: list[dict[str, float]] = []
    try:
        async with asyncio.TaskGroup() as group:
            beside = [group.create_task(work) for work in (churn.follow(), *churn.endings())]
            progress.text = "waiting until all pods run"
            await eventually(churn.look, lambda seen: seen[0] == running, "all pods run", seconds=_SETTLE_SECONDS)
            begun, progress.text = time.time(), "load"
            beside.append(group.create_task(sample(extender, samples, soak.AUDIT_SECONDS)))
            await churn.come(progress)
            seconds = time.time() - begun
            samples[-1] |= await audited(extender)
            for task in beside:
                task.cancel()
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return {"begun": begun, "seconds": seconds, "counts": churn.counted(), "samples": samples}


def rows(of_ours: str, of_theirs: str) -> list[dict[str, Any]]:
    """The verbs of our extender and the attempts of kube-scheduler, from their pages: times in ms, and how many failed. Pure."""
    failed = Counter[str]()
    for one in samples_of(of_ours, ("gpushare_extender_requests_total",)):
        if one.labels["verdict"] == "failed":
            failed[one.labels["verb"]] += int(one.value)
    found = []
    for name, of in spent(of_ours).items():
        verb = name.removeprefix(f"{OURS} ")
        found.append(_row(OURS, verb, of, failed[verb]))
    for name, of in spent(of_theirs).items():
        if name.startswith(_ATTEMPT):
            result = name.removeprefix(_ATTEMPT)
            found.append(_row("kube-scheduler", f"attempt {result}", of, of.count if result == "error" else 0))
    return found


def _row(extender: str, verb: str, of: Spent, failures: int) -> dict[str, Any]:
    times = {"p50": 1000 * of.p50, "p99": 1000 * of.p99}
    return {"extender": extender, "verb": verb, "count": of.count, **times, "failures": failures}
