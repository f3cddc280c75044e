"""The measures of a run, one after the other: filter in each world, binds, the first sync."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import Any, Final

from clusters.api.waiting import eventually
from clusters.processes.ports import free_port
from clusters.processes.progress import Progress
from load.bench.bench_figures import NOTHING, round_medians, summary
from load.bench.bench_plan import CONCURRENCIES, Cell, Plan
from load.bench.bench_servers import (
    Bed,
    Server,
    Sync,
    run_apart,
    set_events,
    start_api_server,
    start_do_nothing,
    start_extender,
)
from load.simulated.measured_world import binder_name, build, node_name

_API_SERVER: Final = "API server alone"
# In this many turns each server binds its pods, so that drift hits all.
_BIND_TURNS: Final = 4
# Versions of one world are above those of the world before it, so that a watch from before must list again.
_VERSIONS: Final = 10_000_000


class Measuring:
    """One run. ``run`` is what was found so far, as it goes into the JSON file."""

    def __init__(self, plan: Plan, bed: Bed, progress: Progress) -> None:
        self._plan = plan
        self._bed = bed
        self._progress = progress
        self._port = free_port()
        self._worlds = 0
        self._nothing: Server | None = None
        self.run: dict[str, Any] = {"filter": [], "bind": [], "sync": [], "left_out": []}

    async def all(self) -> None:
        """All measures of the plan. Raises CannotMeasureError."""
        async with AsyncExitStack() as stack:
            self._nothing = await start_do_nothing(self._bed)
            if self._nothing is None:
                self.run["left_out"].append(
                    "the C server that does nothing, and so all ratios: no cc, gcc or clang here"
                )
            else:
                assert self._nothing.program is not None
                stack.push_async_callback(self._nothing.program.stop)
            if self._plan.syncs_alone:
                await self._sync()
            for nodes in self._plan.nodes:
                await self._world(nodes)

    async def _sync(self) -> None:
        """The first sync alone, in a world of its own."""
        async with AsyncExitStack() as stack:
            await self._start_api(stack, self._plan.sync_nodes, self._plan.sync_pods)
            await self._start_extender(stack, self._plan.sync_nodes, self._plan.sync_pods, with_tls=False)

    async def _world(self, nodes: int) -> None:
        plan = self._plan
        pods = nodes * plan.pods_a_node
        async with AsyncExitStack() as stack:
            await self._start_api(stack, nodes, pods)
            plain = await self._start_extender(stack, nodes, pods, with_tls=False)
            servers = [plain, *([self._nothing] if self._nothing else [])]
            for cell in plan.cells(nodes, tls=False):
                await self._cell(cell, servers)
            if plan.tls and (over_tls_cells := plan.cells(nodes, tls=True)):
                over_tls = await self._start_extender(stack, nodes, pods, with_tls=True)
                for cell in over_tls_cells:
                    await self._cell(cell, [plain, over_tls, *([self._nothing] if self._nothing else [])])
                assert over_tls.program is not None
                await over_tls.program.stop()
            if nodes == plan.bind_nodes and plan.binds:
                await self._binds(nodes, pods, plain)

    async def _start_api(self, stack: AsyncExitStack, nodes: int, pods: int) -> None:
        self._say(f"simulated API server: {nodes} nodes, {pods} pods")
        self._worlds += 1
        binds = self._plan.binds * len(CONCURRENCIES) * 2
        world = {"nodes": nodes, "pods": pods, "binds": binds, "seed": self._plan.seed}
        program = await start_api_server(self._bed, self._port, world | {"first-version": self._worlds * _VERSIONS})
        stack.push_async_callback(program.stop)

    async def _start_extender(self, stack: AsyncExitStack, nodes: int, pods: int, *, with_tls: bool) -> Server:
        self._say(f"first sync of {pods} pods on {nodes} nodes{', with TLS' if with_tls else ''}")
        server, sync = await start_extender(self._bed, with_tls=with_tls)
        assert server.program is not None
        stack.push_async_callback(server.program.stop)
        self.run["sync"].append(_sync_row(nodes, pods, server, sync))
        return server

    async def _cell(self, cell: Cell, servers: Sequence[Server]) -> None:
        plan = self._plan
        what = f"{cell.names} names of {cell.nodes}, {cell.fit} fit, {cell.events:.0f} events/s"
        self._say(f"/filter: {what}{', TLS' if cell.tls else ''}{'' if cell.pause_ms else ', at once'}")
        asked = {
            "nodes": cell.nodes,
            "names": cell.names,
            "fit": cell.fit,
            "questions": plan.questions_of(cell),
            "pause_ms": cell.pause_ms,
            "seed": plan.seed,
        }
        before = await set_events(self._port, cell.events)
        if cell.events:
            await eventually(
                lambda: set_events(self._port, cell.events), lambda count: count > before, "the first event comes"
            )
        begun, cpu = time.monotonic(), [server.cpu_seconds() for server in servers]
        try:
            found = await run_apart(
                self._bed, "load.bench.asker", {**asked, "servers": [one.plan() for one in servers]}
            )
        finally:
            seconds = time.monotonic() - begun
            events = (await set_events(self._port, 0) - before) / seconds
        where = {
            "nodes": cell.nodes,
            "names": cell.names,
            "fit": cell.fit,
            "events": cell.events,
            "with_tls": cell.tls,
            "pause_ms": cell.pause_ms,
        }
        for server, cpu_before, one in zip(servers, cpu, found, strict=True):
            row = {**where, "server": server.name, "events_measured": round(events, 1), **summary(one["microseconds"])}
            taken = None if cpu_before is None else (server.cpu_seconds() or 0) - cpu_before
            row["cpu_microseconds"] = None if taken is None else round(taken * 1e6 / one["asked"], 1)
            row["rounds_p50"] = round_medians(one["microseconds"])
            self.run["filter"].append(row | {"answer_bytes": round(one["answer_bytes"], 1)})

    async def _binds(self, nodes: int, pods: int, plain: Server) -> None:
        """Each server binds pods of its own; nodes in turn, so that none is full early."""
        roomy = build(nodes, pods, self._plan.seed).roomy
        orders = ((binder_name(number), node_name(roomy[number % len(roomy)])) for number in range(1 << 30))
        servers = [("extender", plain.name, plain.url), ("api_server", _API_SERVER, f"http://127.0.0.1:{self._port}")]
        if self._nothing is not None:
            servers.append(("nothing", NOTHING, self._nothing.url))
        for concurrency in CONCURRENCIES:
            self._say(f"binds, {concurrency} at once")
            storms: list[list[Mapping[str, Any]]] = [[] for _ in servers]
            for part in _parts(self._plan.binds):
                asked = [
                    {
                        "kind": kind,
                        "url": url,
                        "orders": [next(orders) for _ in range(part)] if kind != "nothing" else [("x", "y")] * part,
                    }
                    for kind, _, url in servers
                ]
                plan = {"servers": asked, "concurrency": concurrency}
                for kept, storm in zip(storms, await run_apart(self._bed, "load.bench.binder", plan), strict=True):
                    kept.append(storm)
            for (_, name, _), kept in zip(servers, storms, strict=True):
                self.run["bind"].append(_bind_row(name, concurrency, kept))

    def _say(self, what: str) -> None:
        self._progress.text = what
        self._progress.line(what)


def _parts(count: int) -> list[int]:
    """So many in a few turns."""
    return [part for turn in range(_BIND_TURNS) if (part := count // _BIND_TURNS + (turn < count % _BIND_TURNS))]


def _bind_row(name: str, concurrency: int, storms: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    times = [one for storm in storms for one in storm["microseconds"]]
    per_second = len(times) / sum(storm["seconds"] for storm in storms)
    return {"server": name, "concurrency": concurrency, "per_second": round(per_second, 1), **summary(times)}


def _sync_row(nodes: int, pods: int, server: Server, sync: Sync) -> dict[str, Any]:
    return {"nodes": nodes, "pods": pods, "server": server.name} | {
        key: round(value, 3) for key, value in asdict(sync).items()
    }
