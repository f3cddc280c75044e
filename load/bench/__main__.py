"""``python -m load.bench``: the time that the extender takes, beside a server that does nothing. See ``--help``.

Its measures come one after the other: filter in each world, binds, the first sync; and the device plugin with a long list.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from clusters.api.waiting import eventually
from clusters.processes.ports import free_port
from clusters.processes.progress import Progress
from clusters.processes.scratch import scratch_folder
from load.bench import device_list
from load.bench.bench_figures import NOTHING, round_medians, summary, targets, text
from load.bench.bench_servers import Bed, Server, run_apart, set_events, start_extender, start_in_c, start_simulated
from load.load_commands import add_output, exit_code
from load.load_reports import machine, write
from load.simulated.simulated_world import (
    CARD_UNITS,
    CARDS,
    FEWEST_PODS,
    FITS,
    MOST_PODS,
    binder_name,
    node_name,
    roomy_nodes,
)

_API_SERVER: Final = "API server alone"
# In this many turns each server binds its pods, so that drift hits all.
_BIND_TURNS: Final = 4
# Binds are measured in the world of this many nodes, or else in the largest.
_BIND_NODES: Final = 5000
# Versions of one world are above those of the world before it, so that a watch from before must list again.
_VERSIONS: Final = 10_000_000
CONCURRENCIES: Final = (1, 8, 64)
PODS_A_NODE: Final = 10
SEED: Final = 1
# Nodes of a full run, and of a quick one.
_NODES: Final = ((1000, 5000, 15_000), (1000, 5000))
_QUESTIONS: Final = (2000, 1000)
_BINDS: Final = (1000, 300)
# Names in a short question; a long one has all.
_NAMES: Final = 500
# Watch events a second if it is not quiet.
_EVENTS: Final = 500.0
# In a quick run a question of more names than this is asked less often: it takes long, and p99.9 is left to the full run.
_LONG_NAMES: Final = 1000
_LONG_SHARE: Final = 4
_EPILOG: Final = """Exit codes: 0 measured, and no target is missed; 1 something could not be measured; 2 wrong flags; 99 a target
is missed. All is on loopback, and nothing is left behind but the output folder. Quote ratios: absolute times are this machine's."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One measure of filter: a number of a world's nodes, of which all, half or none fit, beside events at a rate.

    If it is ``with_tls`` the extender is asked over TLS too, in the same run. The asker works for ``pause_ms`` before each
    question.
    """

    nodes: int
    names: int
    fit: str
    events: float
    with_tls: bool
    pause_ms: float


@dataclass(frozen=True, slots=True)
class Plan:
    """The worlds of a run, by ``nodes``; how often each server is asked in each cell, and how many pods it binds.

    A device plugin is watched for ``rest_seconds`` while nothing happens.
    """

    nodes: tuple[int, ...]
    questions: int
    binds: int
    pause_ms: float
    quick: bool
    output: Path
    rest_seconds: float = 20.0

    def questions_of(self, cell: Cell) -> int:
        """How often each server is asked."""
        is_long = self.quick and cell.names > _LONG_NAMES
        return max(self.questions // _LONG_SHARE, 1) if is_long else self.questions

    def cells(self, nodes: int, *, with_tls: bool) -> list[Cell]:
        """The measures in one world.

        A quick run asks half-fit questions in all ways, but over TLS only in the largest world; the others while it is quiet
        and plain. Quiet, plain and half-fit ones come without a pause, too, to show the effect of the pause on a figure.
        """
        if self.quick and with_tls and nodes != max(self.nodes):
            return []
        return [
            Cell(nodes, names, fit, events, with_tls, pause)
            for names in sorted({min(_NAMES, nodes), nodes})
            for fit in FITS
            for events in (0.0, _EVENTS)
            for pause in sorted({0.0, self.pause_ms}, reverse=True)
            if not self.quick or fit == "half" or (not events and not with_tls)
            if pause == self.pause_ms or (fit == "half" and not events and not with_tls)
        ]


def read(argv: Sequence[str] | None) -> Plan:
    """The plan of these flags; ends the program with code 2 if they make no sense."""
    parser = argparse.ArgumentParser(
        prog="python -m load.bench",
        description="Measures the extender beside a C server that does nothing, in one run and asked in turn: /filter, "
        "binds, the first sync; then the device plugin with a long list. Worlds are simulated: "
        f"nodes of {CARDS} cards of {CARD_UNITS} units, {FEWEST_PODS} to {MOST_PODS} pods each.",
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
    return Plan(nodes=_NODES[kind], questions=_QUESTIONS[kind], binds=_BINDS[kind], **vars(flags))


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
        self.run: dict[str, Any] = {"filter": [], "bind": [], "sync": [], "device_list": {}, "left_out": []}

    async def all(self) -> None:
        """All measures of the plan. Raises CannotMeasureError."""
        nothing = await start_in_c(self._bed)
        if nothing is None:
            reason = "the C server that does nothing, and so all ratios: no cc, gcc or clang here"
            self.run["left_out"].append(reason)
        for number, nodes in enumerate(self._plan.nodes):
            async with AsyncExitStack() as stack:
                bed = replace(self._bed, stack=stack)
                await self._world(bed, nodes, (number + 1) * _VERSIONS, [nothing] if nothing else [])
        self._say("device plugin: a long list, and at rest")
        self.run["device_list"] = await device_list.measure(self._plan.rest_seconds)

    async def _world(self, bed: Bed, nodes: int, version: int, floor: list[Server]) -> None:
        plan, pods = self._plan, nodes * PODS_A_NODE
        self._say(f"simulated API server: {nodes} nodes, {pods} pods")
        binds = plan.binds * len(CONCURRENCIES) * 2
        world = {"nodes": nodes, "pods": pods, "binds": binds, "seed": SEED, "first-version": version}
        await start_simulated(bed, self._port, world)
        plain = await self._start_extender(bed, nodes, pods, with_tls=False)
        for cell in plan.cells(nodes, with_tls=False):
            await self._cell(cell, [plain, *floor])
        if over_tls_cells := plan.cells(nodes, with_tls=True):
            over_tls = await self._start_extender(bed, nodes, pods, with_tls=True)
            for cell in over_tls_cells:
                await self._cell(cell, [plain, over_tls, *floor])
            await over_tls.program.stop()
        if nodes == (_BIND_NODES if _BIND_NODES in plan.nodes else max(plan.nodes)):
            await self._binds(nodes, plain, floor)

    async def _start_extender(self, bed: Bed, nodes: int, pods: int, *, with_tls: bool) -> Server:
        self._say(f"first sync of {pods} pods on {nodes} nodes{', with TLS' if with_tls else ''}")
        server, sync = await start_extender(bed, with_tls=with_tls)
        took = {key: round(value, 3) for key, value in sync.items()}
        self.run["sync"].append({"nodes": nodes, "pods": pods, "server": server.name, **took})
        return server

    async def _cell(self, cell: Cell, servers: Sequence[Server]) -> None:
        what = f"{cell.names} names of {cell.nodes}, {cell.fit} fit, {cell.events:.0f} events/s"
        self._say(f"/filter: {what}{', TLS' if cell.with_tls else ''}{'' if cell.pause_ms else ', at once'}")
        asked = [
            {
                "name": one.name,
                "url": one.url,
                "does_nothing": one.name == NOTHING,
                "tls": msgspec.structs.astuple(one.tls) if one.tls else None,
            }
            for one in servers
        ]
        plan = {**asdict(cell), "questions": self._plan.questions_of(cell), "seed": SEED, "servers": asked}
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

    async def _binds(self, nodes: int, plain: Server, floor: list[Server]) -> None:
        """Each server binds pods of its own; nodes in turn, so that none is full early."""
        roomy = sorted(roomy_nodes(nodes, SEED))
        orders = ((binder_name(number), node_name(roomy[number % len(roomy)])) for number in itertools.count())
        servers = [("extender", plain.name, plain.url), ("api_server", _API_SERVER, f"http://127.0.0.1:{self._port}")]
        servers += [("nothing", NOTHING, one.url) for one in floor]
        for concurrency in CONCURRENCIES:
            self._say(f"binds, {concurrency} at once")
            storms: list[list[Mapping[str, Any]]] = [[] for _ in servers]
            for part in _parts(self._plan.binds):
                asked = []
                for kind, _, url in servers:
                    pods = [("x", "y")] * part if kind == "nothing" else list(itertools.islice(orders, part))
                    asked.append({"kind": kind, "url": url, "orders": pods})
                plan = {"servers": asked, "concurrency": concurrency}
                for kept, storm in zip(storms, await run_apart(self._bed, "load.bench.client", plan), strict=True):
                    kept.append(storm)
            for (_, name, _), kept in zip(servers, storms, strict=True):
                times = [one for storm in kept for one in storm["microseconds"]]
                rate = round(len(times) / sum(storm["seconds"] for storm in kept), 1)
                row = {"server": name, "concurrency": concurrency, "per_second": rate, **summary(times)}
                self.run["bind"].append(row)

    def _say(self, what: str) -> None:
        self._progress.text = what
        self._progress.line(what)


def _parts(count: int) -> list[int]:
    """So many in a few turns."""
    return [part for turn in range(_BIND_TURNS) if (part := count // _BIND_TURNS + (turn < count % _BIND_TURNS))]


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code; ``--help`` lists them."""
    plan = read(argv)
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
