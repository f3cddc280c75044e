"""One control plane with its nodes, on which all pods are bound: by the scheduler alone, or with an extender."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import yaml

from clusters.api.resources import PODS
from clusters.api.waiting import eventually, for_each
from clusters.controlplane.binaries import ETCD, KWOK
from clusters.controlplane.real_control_plane import API_SERVER, SCHEDULER
from clusters.processes.progress import Progress
from gpushare import wire
from gpushare.setup.core.scheduler_files import EXTENDER_SCORES, NEWEST, scheduler_file
from load.bench.bench_figures import EXTENDER
from load.bench.bench_servers import Bed, Server, start_extender, start_in_c
from load.load_commands import CannotMeasureError
from load.questions import PREFIX
from load.readings import cpu_seconds
from load.real_scheduler.scheduler_figures import AGREES, WITH, WITHOUT, Spent, Turn, spent, units_of
from load.simulated.on_control_plane import AT_ONCE, KwokCluster
from load.simulated.simulated_objects import pod_document
from load.simulated.simulated_world import NAMESPACE, Pod

# Against hangs, in seconds.
_LONGEST: Final = 600.0
_AGREEING: Final = "agreeing extender"
_AGREES: Final = Path(__file__).parent / "agrees.c"
# A limit that is never reached.
_QUESTIONS_A_SECOND: Final = 10_000
# The counters for each pod that is bound.
_SCHEDULED, _BOUND = "scheduler: attempt scheduled", "gpushare bind"


def scheduler_configuration(kind: str, extender: Server | None, percentage: int) -> dict[str, Any]:
    """The one that gpushare-setup writes, without limits: for a turn of this kind, with the extender if there is one."""
    scores = "binpack" if kind == WITH else EXTENDER_SCORES
    shipped: dict[str, Any] = yaml.safe_load(scheduler_file(NEWEST, scores=scores))
    shipped["clientConnection"] = {"qps": _QUESTIONS_A_SECOND, "burst": _QUESTIONS_A_SECOND}
    shipped["percentageOfNodesToScore"] = percentage if kind == WITH else 0
    if extender is None:
        return shipped | {"extenders": []}
    (entry,) = shipped["extenders"]
    if extender.name == _AGREEING:
        # Units must be counted and pods bound, so the scheduler does both.
        entry = {key: value for key, value in entry.items() if key not in ("bindVerb", "preemptVerb")}
        entry["managedResources"] = [{**one, "ignoredByScheduler": False} for one in entry["managedResources"]]
    return shipped | {"extenders": [{**entry, "urlPrefix": extender.url + PREFIX}]}


def _pod(number: int) -> dict[str, Any]:
    """A pod that waits."""
    return pod_document(Pod(f"pod-{number:05}", units_of(number)))


class MeasuredControlPlane:
    """A control plane with its nodes, and the folder and environment of the extenders beside it.

    ``rate`` is how many of the pods come a second while the scheduler is at work; 0: all are there before it is.
    """

    def __init__(self, site: KwokCluster, bed: Bed, progress: Progress, pods: int, rate: int, percentage: int) -> None:
        self._plane, self._api, self._kwok = site
        self._bed = bed
        self._progress = progress
        self._pods, self._rate, self._percentage = pods, rate, percentage

    async def _start_extender(self, kind: str, stack: AsyncExitStack) -> Server | None:
        bed = replace(self._bed, stack=stack)
        if kind == WITHOUT:
            return None
        if kind == AGREES:
            return await start_in_c(bed, _AGREEING, _AGREES)
        return (await start_extender(bed, with_metrics=True))[0]

    async def turn(self, kind: str) -> Turn:
        """Have all pods bound, and remove them."""
        async with AsyncExitStack() as stack:
            extender = await self._start_extender(kind, stack)
            turn = await self._scheduled(kind, extender)
            stack.push_async_callback(self._plane.stop_scheduler)
        self._progress.text = "removing them"
        await self._api.request("DELETE", PODS.path(NAMESPACE), body={"gracePeriodSeconds": 0})
        # Pods that run are gone when kwok says so.
        one = {"limit": "1"}
        await eventually(
            lambda: self._api.request("GET", PODS.path(NAMESPACE), params=one),
            lambda found: not found["items"],
            "all pods are gone",
            seconds=_LONGEST,
        )
        return turn

    async def _scheduled(self, kind: str, extender: Server | None) -> Turn:
        """All pods are bound by kube-scheduler; those that are there first, or those that come."""
        created: dict[str, float] = {}
        bound: dict[str, float] = {}
        places = set[tuple[str, str]]()
        if not self._rate:
            self._progress.text = f"creating {self._pods} pods"
            await for_each(self._api.create, map(_pod, range(self._pods)), AT_ONCE)
        self._progress.text = f"binding {self._pods} pods, {kind}"
        try:
            async with asyncio.timeout(_LONGEST), asyncio.TaskGroup() as group:
                before = await self._follow(kind, extender, created, bound, places, group)
        except ExceptionGroup as failed:
            # A pod that could not be created is not waited for.
            raise failed.exceptions[0] from None
        except TimeoutError:
            raise CannotMeasureError(f"{len(bound)} of {self._pods} pods were bound in {_LONGEST:.0f} s") from None
        self._progress.detail = ""
        seconds = max(bound.values()) - min(bound.values())
        took = {name: so_far - before.get(name, 0.0) for name, so_far in self._cpu(extender).items()}
        waited = sorted(bound[name] - began for name, began in created.items())
        nodes, cards = len({node for node, _ in places}), sum(bool(card) for _, card in places)
        spent_by = await self._spent(extender)
        return Turn(kind, (self._pods - 1) / seconds, took, waited, spent_by, nodes, cards)

    async def _follow(
        self,
        kind: str,
        extender: Server | None,
        created: dict[str, float],
        bound: dict[str, float],
        places: set[tuple[str, str]],
        group: asyncio.TaskGroup,
    ) -> dict[str, float]:
        """Until all pods are bound, to ``places`` of node and card; what each program had taken when the first was."""
        before: dict[str, float] = {}
        async for what, item in self._api.watch(PODS, NAMESPACE):
            if what == "SYNCED":
                await self._plane.start_scheduler(scheduler_configuration(kind, extender, self._percentage))
                if self._rate:
                    group.create_task(self._arrive(created))
            elif what == "MODIFIED" and item["spec"].get("nodeName"):
                before = before or self._cpu(extender)
                bound.setdefault(item["metadata"]["name"], time.monotonic())
                card = (item["metadata"].get("annotations") or {}).get(wire.ANNOTATION_INDEX, "")
                places.add((item["spec"]["nodeName"], card))
                self._progress.detail = f"{len(bound)}"
            if len(bound) == self._pods:
                break
        return before

    async def _arrive(self, created: dict[str, float]) -> None:
        """Pods come at the rate, whatever becomes of those before."""
        begun = time.monotonic()

        async def create(number: int) -> None:
            await asyncio.sleep(max(begun + number / self._rate - time.monotonic(), 0))
            one = _pod(number)
            created[one["metadata"]["name"]] = time.monotonic()
            await self._api.create(one)

        await for_each(create, range(self._pods), AT_ONCE)

    async def _spent(self, extender: Server | None) -> dict[str, Spent]:
        """As soon as all binds are counted: the watch shows the last one before the schedulers have their answers."""

        async def look() -> dict[str, Spent]:
            found = spent(await self._plane.scheduler_metrics())
            return found if ours is None else found | spent(await ours.metrics())

        ours = extender if extender is not None and extender.name == EXTENDER else None
        counted = [_SCHEDULED] if ours is None else [_SCHEDULED, _BOUND]
        return await eventually(
            look,
            lambda found: all(name in found and found[name].count >= self._pods for name in counted),
            "all binds are counted",
        )

    def _cpu(self, extender: Server | None) -> dict[str, float]:
        """Processor seconds of each program so far, and of this one, which follows the pods."""
        pids = {name: self._plane.pid(name) for name in (SCHEDULER, API_SERVER, ETCD)}
        if extender is not None:
            pids[f"gpushare-{EXTENDER}" if extender.name == EXTENDER else extender.name] = extender.pid
        if self._kwok is not None:
            pids[KWOK] = self._kwok.pid
        return {
            name: cpu_seconds(pid) for name, pid in {**pids, "this program": os.getpid()}.items() if pid is not None
        }
