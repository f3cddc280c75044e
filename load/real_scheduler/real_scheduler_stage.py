"""One control plane with its nodes, on which all pods are bound: by the scheduler alone, with the extender, by mere order."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from clusters.api.api_client import ApiClient
from clusters.api.connection import Connection
from clusters.api.resources import NODES, PODS
from clusters.api.waiting import eventually, for_each
from clusters.controlplane.binaries import ETCD, KWOK
from clusters.controlplane.real_control_plane import API_SERVER, SCHEDULER, RealControlPlane
from clusters.processes.program import Program
from clusters.processes.progress import Progress
from clusters.simulated_node import environment_of_programs
from load.bench.bench_servers import CannotMeasureError
from load.load_processes import cpu_seconds
from load.questions import binding_arguments
from load.real_scheduler.histograms import Spent, of_extender, of_scheduler
from load.real_scheduler.scheduler_figures import AGREES, BINDS, BINDS_AT_ONCE, WITHOUT, Turn
from load.real_scheduler.scheduler_programs import Extender, scheduler_configuration, start_agreeing, start_extender
from load.simulated import kwok
from load.simulated.documents import needed_by_pods, node_document, pod_document
from load.simulated.simulated_world import NAMESPACE, Node, Pod

# How many objects are created at once.
_AT_ONCE: Final = 32
# Against hangs, in seconds.
_LONGEST: Final = 600.0
_EXTENDER: Final = "gpushare-extender"
_AGREEING: Final = "agreeing extender"
# The counters for each pod that is bound.
_SCHEDULED, _BOUND = "scheduler: attempt scheduled", "gpushare bind"


@dataclass(frozen=True, slots=True)
class Order:
    """``rate`` is how many pods a second come while the scheduler is at work; 0: all are there before it is."""

    nodes: int
    pods: int
    rate: int = 0


def _pod(number: int) -> dict[str, Any]:
    """A pod that waits, of one of four sizes, in turn."""
    return pod_document(Pod(f"pod-{number:05}", 1 + number % 4))


class Stage:
    """Between ``furnish`` and the end of ``stack``, which ends what was started."""

    def __init__(
        self, control_plane: RealControlPlane, api: ApiClient, folder: Path, progress: Progress, order: Order
    ) -> None:
        self._control_plane = control_plane
        self._api = api
        self._folder = folder
        self._environment = environment_of_programs(os.environ)
        self._progress = progress
        self._order = order
        self._kwok: Program | None = None
        # The program of the extender that only agrees, where there is a compiler.
        self.agreeing: Path | None = None

    async def furnish(self) -> None:
        """The nodes, and the ServiceAccount without which no pod is taken."""
        self._progress.text = f"creating {self._order.nodes} nodes"
        for item in needed_by_pods():
            await self._api.create(item)
        # Eight cards of sixteen units, as the original's plugin publishes them.
        nodes = (node_document(Node(f"node-{number:05}", 8, 16)) for number in range(self._order.nodes))
        await for_each(self._api.create, nodes, _AT_ONCE)

    async def start_kwok(self, binary: Path, stack: AsyncExitStack) -> None:
        """From now on pods that are bound run. Raises ClusterError."""
        self._kwok = await kwok.start(binary, self._control_plane.kubeconfig, self._environment, self._folder)
        stack.push_async_callback(self._kwok.stop)

    async def _start_extender(self, kind: str, stack: AsyncExitStack) -> Extender | None:
        if kind == WITHOUT:
            return None
        if kind == AGREES:
            assert self.agreeing is not None
            return await start_agreeing(self.agreeing, self._environment, self._folder, stack)
        return await start_extender(self._control_plane.kubeconfig, self._environment, self._folder, stack)

    async def turn(self, kind: str) -> Turn:
        """Have all pods bound, and remove them."""
        async with AsyncExitStack() as stack:
            extender = await self._start_extender(kind, stack)
            if kind == BINDS and extender is not None:
                turn = await self._ordered(extender)
            else:
                turn = await self._scheduled(kind, extender)
                stack.push_async_callback(self._control_plane.stop_scheduler)
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

    async def _create_all(self) -> None:
        self._progress.text = f"creating {self._order.pods} pods"
        await for_each(self._api.create, map(_pod, range(self._order.pods)), _AT_ONCE)

    async def _ordered(self, extender: Extender) -> Turn:
        """All pods are ordered to nodes in turn."""
        await self._create_all()
        self._progress.text = f"binding {self._order.pods} pods, {BINDS}"
        nodes = itertools.cycle([one["metadata"]["name"] for one in await self._api.list(NODES)])
        pods = [one["metadata"] for one in await self._api.list(PODS, NAMESPACE)]
        orders = [binding_arguments(one["name"], next(nodes), NAMESPACE, one["uid"]) for one in pods]
        async with Connection(extender.url) as http:

            async def bind(order: bytes) -> None:
                answer = await http.request(
                    "POST", "/gpushare-scheduler/bind", content=order, headers={"content-type": "application/json"}
                )
                if answer.json().get("Error"):
                    raise CannotMeasureError(f"a bind was refused: {answer.text}")

            before, begun = self._cpu(extender), time.monotonic()
            await for_each(bind, orders, BINDS_AT_ONCE)
            seconds = time.monotonic() - begun
        return Turn(BINDS, self._order.pods / seconds, self._took(extender, before))

    async def _scheduled(self, kind: str, extender: Extender | None) -> Turn:
        """All pods are bound by kube-scheduler; those that are there first, or those that come."""
        created: dict[str, float] = {}
        bound: dict[str, float] = {}
        if not self._order.rate:
            await self._create_all()
        self._progress.text = f"binding {self._order.pods} pods, {kind}"
        try:
            async with asyncio.timeout(_LONGEST), asyncio.TaskGroup() as group:
                before = await self._follow(extender, created, bound, group)
        except ExceptionGroup as failed:
            # A pod that could not be created is not waited for.
            raise failed.exceptions[0] from None
        except TimeoutError:
            raise CannotMeasureError(
                f"{len(bound)} of {self._order.pods} pods were bound in {_LONGEST:.0f} s"
            ) from None
        self._progress.detail = ""
        seconds = max(bound.values()) - min(bound.values())
        took = self._took(extender, before)
        waited = sorted(bound[name] - began for name, began in created.items())
        return Turn(kind, (self._order.pods - 1) / seconds, took, waited, await self._spent(extender))

    async def _follow(
        self, extender: Extender | None, created: dict[str, float], bound: dict[str, float], group: asyncio.TaskGroup
    ) -> dict[str, float]:
        """Until all pods are bound; what each program had taken when the first was."""
        before: dict[str, float] = {}
        async for what, item in self._api.watch(PODS, NAMESPACE):
            if what == "SYNCED":
                await self._control_plane.start_scheduler(scheduler_configuration(extender))
                if self._order.rate:
                    group.create_task(self._arrive(created))
            elif what == "MODIFIED" and item["spec"].get("nodeName"):
                before = before or self._cpu(extender)
                bound.setdefault(item["metadata"]["name"], time.monotonic())
                self._progress.detail = f"{len(bound)}"
            if len(bound) == self._order.pods:
                break
        return before

    async def _arrive(self, created: dict[str, float]) -> None:
        """Pods come at the rate, whatever becomes of those before."""
        begun = time.monotonic()

        async def create(number: int) -> None:
            await asyncio.sleep(max(begun + number / self._order.rate - time.monotonic(), 0))
            one = _pod(number)
            created[one["metadata"]["name"]] = time.monotonic()
            await self._api.create(one)

        await for_each(create, range(self._order.pods), _AT_ONCE)

    async def _spent(self, extender: Extender | None) -> dict[str, Spent]:
        """As soon as all binds are counted: the watch shows the last one before the schedulers have their answers."""

        async def look() -> dict[str, Spent]:
            found = of_scheduler(await self._control_plane.scheduler_metrics())
            return found if ours is None else found | of_extender(await ours.metrics())

        ours = extender if extender is not None and extender.decides else None
        counted = [_SCHEDULED] if ours is None else [_SCHEDULED, _BOUND]
        return await eventually(
            look,
            lambda found: all(name in found and found[name].count >= self._order.pods for name in counted),
            "all binds are counted",
        )

    def _took(self, extender: Extender | None, before: Mapping[str, float]) -> dict[str, float]:
        return {name: seconds - before.get(name, 0.0) for name, seconds in self._cpu(extender).items()}

    def _cpu(self, extender: Extender | None) -> dict[str, float]:
        """Processor seconds of each program so far, and of this one, which follows the pods."""
        pids = {name: self._control_plane.pid(name) for name in (SCHEDULER, API_SERVER, ETCD)}
        if extender is not None:
            pids[_EXTENDER if extender.decides else _AGREEING] = extender.program.pid
        if self._kwok is not None:
            pids[KWOK] = self._kwok.pid
        return {
            name: cpu_seconds(pid) for name, pid in {**pids, "this program": os.getpid()}.items() if pid is not None
        }
