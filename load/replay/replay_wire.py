"""The same replay over the wire: Pod objects on the embedded cluster's API server, and the real extender, which binds them.

kube-scheduler is played: CPU and memory, filter, prioritize, one of the best by the seed, bind. No pod waits: the next pod comes
as soon as the one before has its place, so a trace of months takes minutes. A pod that fits nowhere is deleted. Each seed is
replayed by the decisions alone, too, and compared pod by pod.
"""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec
import yaml

from clusters.api.api_client import ApiClient
from clusters.api.resources import PODS
from clusters.api.waiting import eventually
from clusters.embedded.embedded_control_plane import EmbeddedControlPlane
from clusters.processes.progress import Progress
from gpushare.manifests import Pod
from gpushare.model.allocation import decode
from gpushare.model.forecast import Forecast
from load.bench.bench_servers import Bed, start_extender
from load.questions import PREFIX, WrongAnswerError, arguments, binding_arguments, fitting, highest, refusal
from load.replay.extender_replay import Rooms, Step, arrivals, expected_of, replay
from load.replay.trace import NAMESPACE, Trace, TracePod, node_object, pod_object

# So many pods are placed between two looks at what else there is to do.
_A_LOOK: Final = 64
_JSON: Final = {"content-type": "application/json"}


@dataclass(frozen=True, slots=True)
class WireRun:
    """One seed: how many pods came, how many of them lie elsewhere, and the first of those in words; seconds over the wire."""

    seed: int
    pods: int
    different: int
    first: str
    seconds: float


@dataclass(frozen=True, slots=True)
class ReplayServers:
    """An API server with the machines of a trace, and an extender that knows them."""

    api: ApiClient
    session: aiohttp.ClientSession
    url: str

    async def ask(self, verb: str, body: bytes) -> bytes:
        """The answer of the extender. Raises WrongAnswerError for a status that is not 200."""
        async with self.session.post(f"{self.url}/{verb}", data=body, headers=_JSON) as answer:
            text = await answer.read()
            if answer.status != 200:
                raise WrongAnswerError(f"{verb}: status {answer.status}: {text[:200]!r}")
            return text


@asynccontextmanager
async def site(trace: Trace, policy: str, expected: Forecast | None, folder: Path) -> AsyncIterator[ReplayServers]:
    """All of it up, and down again; ``folder`` is empty. Raises ClusterError, CannotMeasureError."""
    async with AsyncExitStack() as stack:
        plane = EmbeddedControlPlane(folder)
        await plane.start(controllers=False)
        stack.push_async_callback(plane.stop)
        api = await stack.enter_async_context(ApiClient.from_kubeconfig(plane.kubeconfig))
        await api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        await api.create(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": NAMESPACE}}
        )
        for node in trace.nodes:
            await api.create(node_object(node))
        flags = ["--policy", policy, "--address", "127.0.0.1"]
        if expected is not None:
            flags += ["--expected-pods", str(_write_expected(folder / "expected.yaml", expected))]
        server, _ = await start_extender(Bed.of(folder, stack), flags=flags)
        session = await stack.enter_async_context(aiohttp.ClientSession(trust_env=False))
        yield ReplayServers(api, session, server.url + PREFIX)


async def replay_over_wire(
    at: ReplayServers, trace: Trace, pods: Sequence[TracePod], seed: int, tell: Callable[[int], None]
) -> list[Step]:
    """The steps, one a pod, as the API server tells of them in the end; ``tell`` is called with how many have come.

    Raises WrongAnswerError where the extender says what kube-scheduler could make nothing of, or refuses to bind.
    """
    rng, rooms = random.Random(seed), Rooms(trace)
    for number, pod in enumerate(pods):
        tell(number)
        created = await at.api.create(pod_object(pod, number))
        metadata, told = created["metadata"], json.dumps(created).encode()
        if names := rooms.holding(pod):
            names = fitting(await at.ask("filter", arguments(told, names)), names)
        if not names:
            await at.api.delete(PODS, metadata["name"], NAMESPACE, grace_seconds=0)
            continue
        node = rng.choice(highest(await at.ask("prioritize", arguments(told, names)), names))
        await _bind(at, pod, metadata, node)
        rooms.take(pod, node)
    return _steps(pods, {item["metadata"]["name"]: item for item in await at.api.list(PODS, NAMESPACE)})


async def _bind(at: ReplayServers, pod: TracePod, metadata: Mapping[str, Any], node: str) -> None:
    """Order the extender to bind a pod. A scheduler binds a pod without cards itself; the extender accepts an order for it then."""
    name = metadata["name"]
    order = binding_arguments(name, node, NAMESPACE, metadata["uid"])

    async def refused() -> str:
        return refusal(await at.ask("bind", order))

    if pod.demand:
        if reason := await refused():
            raise WrongAnswerError(f"bind of {name} to {node}: {reason}")
        return
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    await at.api.request("POST", PODS.path(NAMESPACE, name, "binding"), body=binding)
    await eventually(refused, lambda reason: not reason, f"the extender knows that {name} is bound")


def _steps(pods: Sequence[TracePod], found: dict[str, dict[str, Any]]) -> list[Step]:
    steps, arrived, allocated = [], 0, 0
    for number, pod in enumerate(pods):
        arrived += pod.demand
        item = found.get(f"{pod.name}-{number}")
        if item is None:
            steps.append(Step(pod, arrived, allocated))
            continue
        read = msgspec.convert(item, Pod)
        allocation = decode(read.metadata.annotations, pod.demand) if pod.demand else None
        shares = allocation.shares if allocation is not None else ()
        allocated += sum(units for _, units in shares)
        steps.append(Step(pod, arrived, allocated, read.spec.node_name or "", shares))
    return steps


def _write_expected(path: Path, expected: Forecast) -> Path:
    """As the extender reads it."""
    lines = [
        {
            "gpu-mem": one.units,
            "cards": one.cards,
            "cpu": f"{one.cpu_milli}m",
            "card-model": [model.strip() for model in one.wishes.models],
            "card-model-not": [model.strip() for model in one.wishes.banned_models],
            "count": count,
        }
        for one, count in expected.counts.items()
    ]
    path.write_text(yaml.safe_dump({"pods": lines}, sort_keys=False))
    return path


async def check_all(trace: Trace, policy: str, seeds: Sequence[int], progress: Progress) -> list[WireRun]:
    """One after the other. Raises ClusterError, CannotMeasureError, WrongAnswerError."""
    return [await _check(trace, policy, seed, progress) for seed in seeds]


async def _check(trace: Trace, policy: str, seed: int, progress: Progress) -> WireRun:
    pods, expected = arrivals(trace, seed), expected_of(trace)
    progress.text = f"replaying seed {seed} over the wire, {len(pods)} pods"

    def tell(number: int) -> None:
        progress.detail = f"{number} have come"

    with tempfile.TemporaryDirectory(prefix="gpushare-replay-") as folder:
        async with site(trace, policy, expected, Path(folder)) as at:
            begun = time.monotonic()
            over_wire = await replay_over_wire(at, trace, pods, seed, tell)
            seconds = time.monotonic() - begun
    progress.text = f"replaying seed {seed} without the wire"
    alone = []
    for number, step in enumerate(replay(trace, pods, policy, seed, expected)):
        alone.append(step)
        if number % _A_LOOK == 0:
            # The user may have pressed Ctrl-C.
            tell(number)
            await asyncio.sleep(0)
    return compare(seed, over_wire, alone, seconds)


def compare(seed: int, over_wire: Sequence[Step], alone: Sequence[Step], seconds: float) -> WireRun:
    """Pod by pod: its node, its cards, and what is allocated then."""
    others = [number for number, pair in enumerate(zip(over_wire, alone, strict=True)) if pair[0] != pair[1]]
    first = _words(others[0], over_wire[others[0]], alone[others[0]]) if others else ""
    return WireRun(seed, len(alone), len(others), first, seconds)


def text(runs: Sequence[WireRun]) -> str:
    """A line a seed."""
    return "\n".join(
        f"over the wire, seed {one.seed}: {one.pods} pods in {one.seconds:.1f} s, "
        + (f"{one.different} placed otherwise; first {one.first}" if one.different else "each placed as without it")
        for one in runs
    )


def as_json(runs: Sequence[WireRun]) -> list[dict[str, Any]]:
    """An object a seed."""
    return [
        {"seed": one.seed, "pods": one.pods, "different": one.different, "seconds": round(one.seconds, 3)}
        for one in runs
    ]


def _words(number: int, found: Step, expected: Step) -> str:
    def where(step: Step) -> str:
        cards = ", ".join(f"{units} of card {index}" for index, units in step.shares)
        return f"{step.node}{f' ({cards})' if cards else ''}" if step.node else "nowhere"

    return f"the {number + 1}th, {found.pod.name}: {where(found)} instead of {where(expected)}"
