"""``python -m load.bench``: /filter of the extender beside a C server that does nothing; the device plugin with a long list."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from clusters.api.waiting import eventually
from clusters.processes.commands import Progress
from clusters.processes.scratch import free_port, scratch_folder
from load.bench import plugin_bench
from load.bench.bench_figures import NOTHING, round_medians, summary, targets, text
from load.bench.bench_servers import (
    Bed,
    Server,
    ask_simulated,
    run_apart,
    set_events,
    start_extender,
    start_in_c,
    start_simulated,
)
from load.load_commands import CLUSTERS, add_output, exit_code
from load.load_reports import machine, write
from load.simulated.cluster_file import build, read

_SEED: Final = 1
# Nodes of a full run, and of a quick one; and how often each server is asked in each cell.
_NODES: Final = ((1000, 5000, 15_000), (1000, 5000))
_QUESTIONS: Final = (2000, 1000)
# At most.
_ALLOCATIONS: Final = 500
# Names in a short question; a long one has all.
_NAMES: Final = 500
# Watch events a second if it is not quiet.
_EVENTS: Final = 500.0
# The share of the nodes that a pod fits on, as nearly as there is a size for it.
_FITS: Final = {"all": 1.0, "half": 0.5, "none": 0.0}
_EPILOG: Final = """Exit codes: 0 measured, and no target is missed; 1 something could not be measured; 2 wrong flags; 99 a target
is missed. All is on loopback, and nothing is left behind but the output folder. Quote ratios: absolute times are this machine's."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One measure of filter: a number of a cluster's nodes, of which all, half or none fit, beside events at a rate."""

    nodes: int
    names: int
    fit: str
    events: float


@dataclass(frozen=True, slots=True)
class Plan:
    """The clusters of a run, by ``nodes``; how often each server is asked in each cell.

    The asker works for ``pause_ms`` before each question. A device plugin is watched for ``rest_seconds`` while nothing happens.
    """

    nodes: tuple[int, ...]
    questions: int
    pause_ms: float
    quick: bool
    output: Path
    rest_seconds: float = 20.0


def cells(nodes: int) -> list[Cell]:
    """The measures on one cluster."""
    return [
        Cell(nodes, names, fit, events)
        for names in sorted({min(_NAMES, nodes), nodes})
        for fit in _FITS
        for events in (0.0, _EVENTS)
    ]


def plan_of(argv: Sequence[str] | None) -> Plan:
    """The plan of these flags; ends the program with code 2 if they make no sense."""
    parser = argparse.ArgumentParser(
        prog="python -m load.bench",
        description="Measures the extender beside a C server that does nothing, in one run and asked in turn: /filter, and the "
        "first sync; then the device plugin with a long list, and its answers to Allocate. Clusters are simulated: "
        "clusters/simulated/load.",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--quick", action="store_true", help="a run of about two minutes: no 15,000 nodes, fewer questions"
    )
    parser.add_argument(
        "--pause-ms",
        type=_milliseconds,
        default=1.0,
        metavar="MS",
        help="work of the asker's own before each question, in milliseconds: a scheduler has some, and servers fall asleep "
        "meanwhile; 0: none (default: %(default)g)",
    )
    add_output(parser, "bench-results")
    flags = parser.parse_args(argv)
    kind = int(flags.quick)
    return Plan(nodes=_NODES[kind], questions=_QUESTIONS[kind], **vars(flags))


def _milliseconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of milliseconds from 0 to 1000")
    return value


class Measuring:
    """One run. ``run`` is what was found so far, as it goes into the JSON file."""

    def __init__(self, plan: Plan, bed: Bed, progress: Progress) -> None:
        self._plan = plan
        self._bed = bed
        self._progress = progress
        self._port = free_port()
        self.run: dict[str, Any] = {"filter": [], "sync": [], "device_list": {}, "allocations": {}, "left_out": []}

    async def all(self) -> None:
        """All measures of the plan. Raises CannotMeasureError."""
        nothing = await start_in_c(self._bed)
        if nothing is None:
            reason = "the C server that does nothing, and so all ratios: no cc, gcc or clang here"
            self.run["left_out"].append(reason)
        for nodes in self._plan.nodes:
            async with AsyncExitStack() as stack:
                await self._cluster(replace(self._bed, stack=stack), nodes, [nothing] if nothing else [])
        self._say("device plugin: a long list, and at rest")
        self.run["device_list"] = await plugin_bench.measure_list(self._plan.rest_seconds)
        self._say("device plugins: Allocate, without and with limits")
        self.run["allocations"] = await plugin_bench.measure_allocations(min(self._plan.questions, _ALLOCATIONS))

    async def _cluster(self, bed: Bed, nodes: int, floor: list[Server]) -> None:
        file = CLUSTERS / f"nodes-{nodes}.yaml"
        self._say(f"simulated API server: {nodes} nodes")
        await start_simulated(bed, self._port, file)
        pods = (await ask_simulated(self._port))["running"]
        self._say(f"first sync of {pods} pods on {nodes} nodes")
        server, sync = await start_extender(bed)
        took = {key: round(value, 3) for key, value in sync.items()}
        self.run["sync"].append({"nodes": nodes, "pods": pods, "server": server.name, **took})
        world = build(read(file))
        units = {fit: world.size_for(share) for fit, share in _FITS.items()}
        for cell in cells(nodes):
            await self._cell(cell, {"cluster": str(file), "units": units[cell.fit]}, [server, *floor])

    async def _cell(self, cell: Cell, question: dict[str, Any], servers: Sequence[Server]) -> None:
        self._say(f"/filter: {cell.names} names of {cell.nodes}, {cell.fit} fit, {cell.events:.0f} events/s")
        asked = [{"name": one.name, "url": one.url, "does_nothing": one.name == NOTHING} for one in servers]
        order = {"questions": self._plan.questions, "pause_ms": self._plan.pause_ms, "seed": _SEED}
        plan = {**asdict(cell), **question, **order, "servers": asked}
        before = await set_events(self._port, cell.events)
        if cell.events:
            await eventually(
                lambda: set_events(self._port, cell.events), lambda count: count > before, "the first event comes"
            )
        begun, cpu = time.monotonic(), [server.cpu_seconds() for server in servers]
        try:
            found = await run_apart(self._bed, "load.bench.client", plan)
        finally:
            seconds = time.monotonic() - begun
            events = (await set_events(self._port, 0) - before) / seconds
        for server, cpu_before, one in zip(servers, cpu, found, strict=True):
            taken = (server.cpu_seconds() - cpu_before) * 1e6 / one["asked"]
            self.run["filter"].append(
                {
                    **asdict(cell),
                    "server": server.name,
                    "events_measured": round(events, 1),
                    **summary(one["microseconds"]),
                    "cpu_microseconds": round(taken, 1),
                    "rounds_p50": round_medians(one["microseconds"]),
                    "answer_bytes": round(one["answer_bytes"], 1),
                }
            )

    def _say(self, what: str) -> None:
        self._progress.text = what
        self._progress.line(what)


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code; ``--help`` lists them."""
    plan = plan_of(argv)
    return exit_code("bench", lambda: run(plan))


def run(plan: Plan) -> int:
    """The code; prints what was measured and keeps it in a file. Raises CannotMeasureError, ClusterError, OSError."""
    plan.output.mkdir(parents=True, exist_ok=True)
    found = asyncio.run(_measure(plan))
    path = plan.output / "bench.json"
    write(path, found)
    print(f"{text(found)}\n\nwrote {path}")
    return 99 if any(target.is_kept is False for target in targets(found)) else 0


async def _measure(plan: Plan) -> dict[str, Any]:
    before = os.getloadavg()[0]
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        progress = stack.enter_context(Progress("bench", "starting", sys.stderr))
        measuring = Measuring(plan, Bed.of(folder, stack), progress)
        await measuring.all()
    found = {
        "machine": machine(before),
        "plan": {**asdict(plan), "output": str(plan.output)},
        **measuring.run,
    }
    return found | {"targets": [{**one._asdict(), "met": one.is_kept} for one in targets(found)]}


if __name__ == "__main__":
    sys.exit(main())
