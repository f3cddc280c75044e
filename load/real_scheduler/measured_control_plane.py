"""One control plane with its nodes, on which all pods are bound: by the scheduler alone, or with an extender."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from clusters.api.api_client import ApiClient
from clusters.api.readiness import says_ready
from clusters.api.resources import NODES, PODS
from clusters.api.waiting import eventually, for_each
from clusters.controlplane.binaries import ETCD, KWOK, kwok, locate, minors
from clusters.controlplane.build import ensure_modules
from clusters.controlplane.real_control_plane import API_SERVER, SCHEDULER, RealControlPlane
from clusters.processes.commands import Progress
from clusters.processes.program import Program
from clusters.processes.scratch import free_port
from clusters.simulated_node import environment_of_programs
from gpushare import wire
from gpushare.setup.core.scheduler_files import EXTENDER_SCORES, NEWEST, scheduler_file
from load.bench.bench_figures import EXTENDER
from load.bench.bench_servers import Bed, Server, start_extender, start_in_c
from load.load_commands import CannotMeasureError
from load.questions import PREFIX
from load.readings import cpu_seconds
from load.real_scheduler.scheduler_figures import AGREES, WITH, WITHOUT, Spent, Turn, Workload, spent
from load.simulated.simulated_objects import NAMESPACE, Pod, World, needed_by_pods, node_document, pod_document

# Against hangs, in seconds.
_LONGEST: Final = 600.0
_AGREEING: Final = "agreeing extender"
_AGREES: Final = Path(__file__).parent / "agrees.c"
# A limit that is never reached.
_QUESTIONS_A_SECOND: Final = 10_000
# The counters for each pod that is bound.
_SCHEDULED, _BOUND = "scheduler: attempt scheduled", "gpushare bind"
# The beginning of the names of the pods.
_PREFIX: Final = "pod-"
_STAGES: Final = Path(__file__).with_name("kwok_stages.yaml")
# The phase of a node that kwok knows, by the stages.
_NODE_PHASE: Final = "Running"
# Until kwok has reported each of thousands of nodes as ready: against hangs only.
_KNOWN_SECONDS: Final = 600.0
# How many objects are created together.
AT_ONCE: Final = 32


class KwokCluster(NamedTuple):
    """The control plane, a client of it, and kwok if it is at work there."""

    plane: RealControlPlane
    api: ApiClient
    kwok: Program | None


async def bring_up(
    world: World, folder: Path, stack: AsyncExitStack, progress: Progress, *, with_kwok: bool
) -> KwokCluster:
    """All of the world, and pods that are bound run; logs and the kubeconfig are in the folder. It ends with the stack.

    Raises ApiError, ClusterError, NotReachedError.
    """
    binaries, environment = locate(minors()[0], os.environ), environment_of_programs(os.environ)
    binary = None
    if with_kwok:
        progress.text = "looking for kwok"
        # In a thread: Go builds it once, in minutes, and Ctrl-C must work.
        binary = (await asyncio.to_thread(ensure_modules, [kwok()], os.environ, sys.stderr))[KWOK]
    progress.text = "starting a control plane"
    plane = RealControlPlane(binaries, folder, environment)
    stack.push_async_callback(plane.stop)
    await plane.start(controllers=False)
    api = await stack.enter_async_context(ApiClient.from_kubeconfig(plane.kubeconfig))
    progress.text = "creating nodes"
    await _create(api, map(node_document, world.nodes), len(world.nodes), progress)
    program = None
    if binary is not None:
        progress.text = "starting kwok"
        program = await _start_kwok(binary, plane.kubeconfig, environment, folder, stack)
        # kwok passes over pods that it hears of before their node, and reads them again from what may be the API server's old list.
        await eventually(lambda: _unknown(api), lambda count: not count, "kwok knows all nodes", seconds=_KNOWN_SECONDS)
    progress.text = "creating pods"
    for item in needed_by_pods():
        await api.create(item)
    await _create(api, map(pod_document, world.running), len(world.running), progress)
    return KwokCluster(plane, api, program)


async def _start_kwok(
    binary: Path, kubeconfig: Path, environment: Mapping[str, str], folder: Path, stack: AsyncExitStack
) -> Program:
    port = free_port()
    argv = [str(binary), "--kubeconfig", str(kubeconfig), "--config", str(_STAGES), "--manage-all-nodes=true"]
    # No program here reads the Leases of nodes.
    argv += ["--node-lease-duration-seconds=0", f"--server-address=127.0.0.1:{port}"]
    program = Program(KWOK, argv, environment, folder / f"{KWOK}.log")
    stack.push_async_callback(program.stop)
    await program.launch(lambda: says_ready(f"http://127.0.0.1:{port}/healthz"))
    return program


async def _create(api: ApiClient, items: Iterable[dict[str, Any]], total: int, progress: Progress) -> None:
    done = 0

    async def create(item: dict[str, Any]) -> None:
        nonlocal done
        await api.create(item)
        done += 1
        progress.detail = f"{done} of {total}"

    await for_each(create, items, AT_ONCE)
    progress.detail = ""


async def _unknown(api: ApiClient) -> int:
    """How many nodes kwok has not reported yet."""
    return sum(node["status"].get("phase") != _NODE_PHASE for node in await api.list(NODES))


def _name(number: int) -> str:
    return f"{_PREFIX}{number:05}"


def scheduler_configuration(kind: str, extender: Server | None, percentage: int) -> dict[str, Any]:
    """The one that gpushare-setup writes, without limits: for a turn of this kind, with the extender if there is one.

    One that agrees is asked as ours is: about other numbers of nodes their rates could not be compared.
    """
    is_recommended = kind in (AGREES, WITH)
    scores = "binpack" if is_recommended else EXTENDER_SCORES
    shipped: dict[str, Any] = yaml.safe_load(scheduler_file(NEWEST, scores=scores))
    shipped["clientConnection"] = {"qps": _QUESTIONS_A_SECOND, "burst": _QUESTIONS_A_SECOND}
    shipped["percentageOfNodesToScore"] = percentage if is_recommended else 0
    if extender is None:
        return shipped | {"extenders": []}
    (entry,) = shipped["extenders"]
    if extender.name == _AGREEING:
        # Units must be counted and pods bound, so the scheduler does both.
        entry = {key: value for key, value in entry.items() if key not in ("bindVerb", "preemptVerb")}
        entry["managedResources"] = [{**one, "ignoredByScheduler": False} for one in entry["managedResources"]]
    return shipped | {"extenders": [{**entry, "urlPrefix": extender.url + PREFIX}]}


@dataclass(slots=True)
class _Seen:
    """Pods of a turn: when each was created and bound, the places (node and card) that got one, and use before the first."""

    created: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    places: set[tuple[str, str]] = field(default_factory=set)
    cpu_before: dict[str, float] = field(default_factory=dict)


class MeasuredControlPlane:
    """A control plane with its nodes, and the folder and environment of the extenders beside it."""

    def __init__(self, site: KwokCluster, bed: Bed, progress: Progress, work: Workload, percentage: int) -> None:
        self._plane, self._api, self._kwok = site
        self._bed = bed
        self._progress = progress
        self._work, self._percentage = work, percentage

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
        await for_each(self._remove, range(self._work.pods), AT_ONCE)
        await eventually(self._left, lambda count: not count, "all pods are gone", seconds=_LONGEST)
        return turn

    async def _remove(self, number: int) -> None:
        await self._api.delete(PODS, _name(number), NAMESPACE, grace_seconds=0)

    async def _left(self) -> int:
        """How many pods are still there: those that run are gone when kwok reports it."""
        there = {pod["metadata"]["name"] for pod in await self._api.list(PODS, NAMESPACE)}
        return len(there.intersection(map(_name, range(self._work.pods))))

    def _pod(self, number: int) -> dict[str, Any]:
        """A pod that waits."""
        return pod_document(Pod(_name(number), self._work.units_of(number)))

    async def _scheduled(self, kind: str, extender: Server | None) -> Turn:
        """All pods are bound by kube-scheduler; those that are there first, or those that come."""
        seen, pods = _Seen(), self._work.pods
        if not self._work.rate:
            self._progress.text = f"creating {pods} pods"
            await for_each(self._api.create, map(self._pod, range(pods)), AT_ONCE)
        self._progress.text = f"binding {pods} pods, {kind}"
        try:
            async with asyncio.timeout(_LONGEST), asyncio.TaskGroup() as group:
                await self._follow(kind, extender, seen, group)
        except ExceptionGroup as failed:
            # A pod that could not be created is not waited for.
            raise failed.exceptions[0] from None
        except TimeoutError:
            raise CannotMeasureError(f"{len(seen.bound)} of {pods} pods were bound in {_LONGEST:.0f} s") from None
        self._progress.detail = ""
        seconds = max(seen.bound.values()) - min(seen.bound.values())
        took = {name: so_far - seen.cpu_before.get(name, 0.0) for name, so_far in self._cpu(extender).items()}
        waited = sorted(seen.bound[name] - began for name, began in seen.created.items())
        nodes, cards = len({node for node, _ in seen.places}), sum(bool(card) for _, card in seen.places)
        spent_by = await self._spent(extender)
        return Turn(kind, (pods - 1) / seconds, took, waited, spent_by, nodes, cards)

    async def _follow(self, kind: str, extender: Server | None, seen: _Seen, group: asyncio.TaskGroup) -> None:
        """Until all pods are bound."""
        async for what, item in self._api.watch(PODS, NAMESPACE):
            name = item["metadata"]["name"] if item else ""
            if what == "SYNCED":
                await self._plane.start_scheduler(scheduler_configuration(kind, extender, self._percentage))
                if self._work.rate:
                    group.create_task(self._arrive(seen.created))
            elif what == "MODIFIED" and item["spec"].get("nodeName") and name.startswith(_PREFIX):
                seen.cpu_before = seen.cpu_before or self._cpu(extender)
                seen.bound.setdefault(name, time.monotonic())
                card = (item["metadata"].get("annotations") or {}).get(wire.ANNOTATION_INDEX, "")
                seen.places.add((item["spec"]["nodeName"], card))
                self._progress.detail = f"{len(seen.bound)}"
            if len(seen.bound) == self._work.pods:
                break

    async def _arrive(self, created: dict[str, float]) -> None:
        """Pods come at the rate, whatever becomes of those before."""
        begun = time.monotonic()

        async def create(number: int) -> None:
            await asyncio.sleep(max(begun + number / self._work.rate - time.monotonic(), 0))
            created[_name(number)] = time.monotonic()
            await self._api.create(self._pod(number))

        await for_each(create, range(self._work.pods), AT_ONCE)

    async def _spent(self, extender: Server | None) -> dict[str, Spent]:
        """As soon as all binds are counted: the watch shows the last one before the schedulers have their answers."""

        async def look() -> dict[str, Spent]:
            found = spent(await self._plane.scheduler_metrics())
            return found if ours is None else found | spent(await ours.metrics())

        ours = extender if extender is not None and extender.name == EXTENDER else None
        counted = [_SCHEDULED] if ours is None else [_SCHEDULED, _BOUND]
        return await eventually(
            look,
            lambda found: all(name in found and found[name].count >= self._work.pods for name in counted),
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
