"""Pods a second that the real kube-scheduler binds, with the extender and without it, in turn, on one control plane; and how many
the extender binds for one who orders many at once.

``python -m load.real_scheduler``: etcd, kube-apiserver and kube-scheduler are real; nodes are Node objects and nothing more, so
nothing starts pods and no controller is at work. All pods are there before the scheduler is; what is timed is from its first
binding to its last. Its limits on questions to the API server are raised far beyond what it can use. Without the extender the
scheduler itself counts the units of a node, which is the least that anybody can do: that is the ceiling.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from clusters.api_client import ApiClient
from clusters.connection import Connection
from clusters.controlplane.binaries import ETCD, MissingBinariesError, locate, minors
from clusters.controlplane.control_plane import API_SERVER, SCHEDULER, RealControlPlane
from clusters.local_cluster import SCHEDULER_CONFIG
from clusters.ports import free_port
from clusters.program import Program
from clusters.progress import Progress
from clusters.provider import ClusterError
from clusters.readiness import says_ready
from clusters.resources import NODES, PODS, SERVICE_ACCOUNTS
from clusters.scratch import scratch_folder
from clusters.simulated_node import environment_of_programs
from clusters.targets import load_target
from load.bench.servers import CannotMeasureError
from load.flags import count
from load.processes import cpu_seconds

# What the project promises: of the pods a second without an extender.
_SHARE: Final = 0.85
_NAMESPACE: Final = "load"
_MEMORY: Final = "aliyun.com/gpu-mem"
# A node: eight cards of sixteen units, as the original's plugin says it.
_AMOUNTS: Final = {"cpu": "64", "memory": "512Gi", "pods": "110", _MEMORY: "128", "aliyun.com/gpu-count": "8"}
_UNITS: Final = (1, 2, 3, 4)
# No limit that anybody reaches.
_QUESTIONS_A_SECOND: Final = 10_000
# How many objects are created at once.
_AT_ONCE: Final = 32
# Against hangs, in seconds.
_LONGEST: Final = 600.0
_EXTENDER: Final = "gpushare-extender"
WITHOUT, WITH = "without an extender", "with gpushare"
# Orders to bind, so many at once, by nobody's schedule: what limits them, we or the API server?
_BINDS_AT_ONCE: Final = 64
BINDS: Final = f"{_BINDS_AT_ONCE} binds at once"
_EPILOG: Final = """Exit codes: 0 measured; 1 something could not be measured; 2 wrong flags; 99 with --check, when gpushare
reaches less than 85 %% of what the scheduler does alone. All is on loopback, and nothing is left behind but the output."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One run of all pods: pods a second, and processor seconds by program."""

    kind: str
    pods_per_second: float
    cpu_seconds: dict[str, float]


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code; ``--help`` lists them."""
    flags = _parser().parse_args(argv)
    try:
        turns = asyncio.run(_measure(flags))
    except (CannotMeasureError, ClusterError, MissingBinariesError, OSError) as error:
        print(f"real-scheduler: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    share = rate(turns, WITH) / rate(turns, WITHOUT)
    if flags.output:
        document = {"nodes": flags.nodes, "pods": flags.pods, "share": share, "turns": [asdict(turn) for turn in turns]}
        flags.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(text(turns, flags.nodes, flags.pods))
    return 99 if flags.check and share < _SHARE else 0


def rate(turns: Iterable[Turn], kind: str) -> float:
    """The median of pods a second of the turns of this kind."""
    return statistics.median(turn.pods_per_second for turn in turns if turn.kind == kind)


def text(turns: Sequence[Turn], nodes: int, pods: int) -> str:
    """What is printed: the share first, then each turn with the processor time of a pod by program."""
    share = rate(turns, WITH) / rate(turns, WITHOUT)
    lines = [
        f"{pods} pods on {nodes} nodes: gpushare reaches {share:.0%} of what kube-scheduler binds alone "
        f"(promised: {_SHARE:.0%})",
        f"{'':24}{'pods/s':>8}   processor ms a pod",
    ]
    for turn in turns:
        programs = ", ".join(f"{name} {1000 * seconds / pods:.2f}" for name, seconds in turn.cpu_seconds.items())
        lines.append(f"{turn.kind:24}{turn.pods_per_second:8.1f}   {programs}")
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m load.real_scheduler", description=__doc__, epilog=_EPILOG)
    add = parser.add_argument
    add("--nodes", type=count, default=1000, help="Node objects (default: %(default)s)")
    add("--pods", type=count, default=2000, help="pods of each turn (default: %(default)s)")
    add("--turns", type=count, default=3, help="turns of each kind, in turn (default: %(default)s)")
    add("--kubernetes", default=minors()[0], choices=minors(), help="minor of the control plane (default: the newest)")
    add("--assets", type=Path, help="folder with ready programs of a control plane (as KUBEBUILDER_ASSETS)")
    add("--output", "-o", type=Path, help="file for all figures as JSON")
    add("--check", action="store_true", help="exit with 99 when less is reached than is promised")
    return parser


async def _measure(flags: argparse.Namespace) -> list[Turn]:
    environment = dict(os.environ)
    binaries = locate(flags.kubernetes, environment, flags.assets)
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        progress = stack.enter_context(Progress("real-scheduler", "starting a control plane", sys.stderr))
        control_plane = RealControlPlane(binaries, folder, environment)
        stack.push_async_callback(control_plane.stop)
        await control_plane.start(controllers=False)
        api = await stack.enter_async_context(ApiClient.from_kubeconfig(control_plane.kubeconfig))
        stage = _Stage(control_plane, api, folder, progress, flags.pods)
        await stage.furnish(flags.nodes)
        return [await stage.turn(kind) for _ in range(flags.turns) for kind in (WITHOUT, WITH, BINDS)]


class _Stage:
    """One control plane with its nodes."""

    def __init__(
        self, control_plane: RealControlPlane, api: ApiClient, folder: Path, progress: Progress, pods: int
    ) -> None:
        self._control_plane = control_plane
        self._api = api
        self._folder = folder
        self._environment = environment_of_programs(os.environ)
        self._progress = progress
        self._pods = pods

    async def furnish(self, nodes: int) -> None:
        """The nodes, and the ServiceAccount without which no pod is taken."""
        self._progress.text = f"creating {nodes} nodes"
        await self._api.ensure_namespace(_NAMESPACE)
        await self._api.create(
            {"apiVersion": "v1", "kind": SERVICE_ACCOUNTS.kind, "metadata": {"name": "default"}}, _NAMESPACE
        )
        await _all(self._api.create, [_node(f"node-{number:05}") for number in range(nodes)])

    async def turn(self, kind: str) -> Turn:
        """Create all pods, have them bound, remove them."""
        self._progress.text = f"creating {self._pods} pods"
        await _all(lambda pod: self._api.create(pod, _NAMESPACE), [_pod(number) for number in range(self._pods)])
        async with AsyncExitStack() as stack:
            extender = None if kind == WITHOUT else await self._extender(stack)
            self._progress.text = f"binding {self._pods} pods, {kind}"
            if kind == BINDS and extender is not None:
                turn = await self._ordered(extender)
            else:
                turn = await self._scheduled(kind, extender)
                stack.push_async_callback(self._control_plane.stop_scheduler)
        self._progress.text = "removing them"
        await self._api.request("DELETE", PODS.path(_NAMESPACE), body={"gracePeriodSeconds": 0})
        return turn

    async def _ordered(self, extender: Program) -> Turn:
        """All pods are ordered to nodes in turn."""
        nodes = itertools.cycle([node["metadata"]["name"] for node in await self._api.list(NODES)])
        pods = [pod["metadata"] for pod in await self._api.list(PODS, _NAMESPACE)]
        orders = [
            {"PodName": pod["name"], "PodNamespace": _NAMESPACE, "PodUID": pod["uid"], "Node": next(nodes)}
            for pod in pods
        ]
        async with Connection(f"http://127.0.0.1:{extender.name}") as http:

            async def bind(order: dict[str, Any]) -> None:
                content = json.dumps(order).encode()
                answer = await http.request(
                    "POST", "/gpushare-scheduler/bind", content=content, headers={"content-type": "application/json"}
                )
                if answer.json().get("Error"):
                    raise CannotMeasureError(f"a bind was refused: {answer.text}")

            before, begun = self._cpu(extender), time.monotonic()
            await _all(bind, orders, _BINDS_AT_ONCE)
            seconds = time.monotonic() - begun
        return Turn(BINDS, self._pods / seconds, self._spent(extender, before))

    async def _scheduled(self, kind: str, extender: Program | None) -> Turn:
        """All pods are bound by kube-scheduler."""
        seen, first, last = set[str](), 0.0, 0.0
        before: dict[str, float] = {}
        async with asyncio.timeout(_LONGEST):
            watch = self._api.watch(PODS, _NAMESPACE)
            async for what, pod in watch:
                if what == "SYNCED":
                    await self._control_plane.start_scheduler(_configuration(extender))
                elif what == "MODIFIED" and pod["spec"].get("nodeName"):
                    if not seen:
                        first, before = time.monotonic(), self._cpu(extender)
                    seen.add(pod["metadata"]["uid"])
                    self._progress.detail = f"{len(seen)}"
                if len(seen) == self._pods:
                    last = time.monotonic()
                    break
        self._progress.detail = ""
        return Turn(kind, (self._pods - 1) / (last - first), self._spent(extender, before))

    def _spent(self, extender: Program | None, before: Mapping[str, float]) -> dict[str, float]:
        return {name: seconds - before.get(name, 0.0) for name, seconds in self._cpu(extender).items()}

    def _cpu(self, extender: Program | None) -> dict[str, float]:
        """Processor seconds of each program so far, and of this one, which follows the pods."""
        pids = {name: self._control_plane.pid(name) for name in (SCHEDULER, API_SERVER, ETCD)}
        if extender is not None:
            pids[_EXTENDER] = extender.pid
        return {
            name: cpu_seconds(pid) for name, pid in {**pids, "this program": os.getpid()}.items() if pid is not None
        }

    async def _extender(self, stack: AsyncExitStack) -> Program:
        port = free_port()
        kubeconfig = str(self._control_plane.kubeconfig)
        argv, own = load_target("gpushare").extender.command(port=str(port), kubeconfig=kubeconfig)
        program = Program(f"{port}", argv, {**self._environment, **own}, self._folder / "extender.log")
        stack.push_async_callback(program.stop)
        await program.launch(lambda: says_ready(f"http://127.0.0.1:{port}/readyz"))
        return program


def _configuration(extender: Program | None) -> dict[str, Any]:
    """The one that we ship, without limits; with the extender where there is one."""
    shipped: dict[str, Any] = yaml.safe_load(SCHEDULER_CONFIG.read_text())
    limits = {"qps": _QUESTIONS_A_SECOND, "burst": _QUESTIONS_A_SECOND}
    if extender is None:
        return {**shipped, "clientConnection": limits, "extenders": []}
    (entry,) = shipped["extenders"]
    url = f"http://127.0.0.1:{extender.name}/gpushare-scheduler"
    return {**shipped, "clientConnection": limits, "extenders": [{**entry, "urlPrefix": url}]}


def _node(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": NODES.kind,
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "capacity": _AMOUNTS,
            "allocatable": _AMOUNTS,
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "Simulated", "message": "there is no kubelet"}
            ],
        },
    }


def _pod(number: int) -> dict[str, Any]:
    amounts = {_MEMORY: str(_UNITS[number % len(_UNITS)]), "cpu": "100m"}
    return {
        "apiVersion": "v1",
        "kind": PODS.kind,
        "metadata": {"name": f"pod-{number:05}"},
        "spec": {
            "containers": [{"name": "main", "image": "nobody/starts:it", "resources": {"limits": amounts}}],
            # Nodes without a kubelet are tainted.
            "tolerations": [{"operator": "Exists"}],
        },
    }


async def _all(
    act: Callable[[dict[str, Any]], Awaitable[object]], items: Iterable[dict[str, Any]], at_once: int = _AT_ONCE
) -> None:
    """Do it for each, so many at once."""
    left = iter(items)

    async def work() -> None:
        for item in left:
            await act(item)

    await asyncio.gather(*(work() for _ in range(at_once)))


if __name__ == "__main__":
    sys.exit(main())
