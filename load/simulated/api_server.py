"""``python -m load.simulated.api_server``: stands in for an API server in front of a cluster of many pods.

A process of its own: lists in pages, watches, bindings; as many events a second (``POST /simulated/events``) and new pods
(``POST /simulated/arrivals``) as it is told. It makes objects from templates, so that 50,000 pods cost it next to nothing and
the measured program is its client. It checks nothing: there are no rights, no schemas, no conflicts. Any kind that it does
not know has no objects.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from aiohttp import web

from gpushare import wire
from load.load_commands import exit_code
from load.simulated.cluster import NODES, PODS, REMEMBERED, Cluster, Event
from load.simulated.cluster_file import build, read
from load.simulated.simulated_objects import NAMESPACE, Pod, node_object

_INDEX: Final = re.compile(r"[0-9]{1,3}")
_COUNTS: Final = ("events", "binds", "created", "ended", "over_booked", "over_booked_knowingly", "binds_without_card")
# How often events are due, in seconds, and how often a watch without events hears that it is up to date.
_TICK_SECONDS: Final = 0.005
_BOOKMARK_SECONDS: Final = 30.0
# Sums of many small steps fall short of a whole number by less than this.
_ROUNDING: Final = 1e-6
# How long a caller waits for the next pod, in seconds.
_NEXT_SECONDS: Final = 0.5


class Pace:
    """Pods at a rate. A debt of pods when the rate changes stays, except with a rate of 0, which ends it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rate = 0.0
        self._since = clock()
        self._owed = 0.0

    def set(self, rate: float) -> None:
        """From now on."""
        self._accrue()
        self._rate = rate
        self._owed = self._owed if rate else 0.0

    def due(self) -> int:
        """How many more there must be by now."""
        self._accrue()
        due = int(self._owed + _ROUNDING)
        self._owed -= due
        return due

    def _accrue(self) -> None:
        now = self._clock()
        self._owed += self._rate * (now - self._since)
        self._since = now


class Api:
    """The server's handlers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._watches: set[tuple[str, web.StreamResponse]] = set()
        self._events = Pace()
        self._arrivals = Pace()
        self._come: asyncio.Queue[Pod] = asyncio.Queue()

    def application(self) -> web.Application:
        """To serve."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/simulated", self._counts),
                web.get("/simulated/placed", self._placed),
                web.post("/simulated/events", self._set_rate),
                web.post("/simulated/arrivals", self._set_arrivals),
                web.post("/simulated/next", self._next),
                web.post(f"/api/v1/namespaces/{NAMESPACE}/pods/{{name}}/binding", self._bind),
                web.get(f"/api/v1/namespaces/{NAMESPACE}/pods/{{name}}", self._get_pod),
                web.get("/{path:.*}", self._collection),
                web.patch("/{path:.*}", self._patch),
            ]
        )
        return app

    async def tick(self) -> None:
        """Let events and pods come; ends by cancellation."""
        await asyncio.gather(self._emit(), self._bookmark())

    async def _collection(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("watch") in ("1", "true"):
            return await self._watch(request)
        version, _, first = request.query.get("continue", ":0").partition(":")
        found = self._cluster.collection(request.path, int(version) if version else None)
        if found is None:
            return _refusal(410, "Expired", "the list began too long ago")
        begin, end = int(first), min(found.count, int(first) + int(request.query.get("limit", 0) or found.count))
        metadata = {"resourceVersion": str(found.version)}
        if end < found.count:
            metadata["continue"] = f"{found.version}:{end}"
        items = b",".join(map(found.make, range(begin, end)))
        head = b'{"kind":"List","apiVersion":"v1","metadata":%b,"items":[' % json.dumps(metadata).encode()
        return web.Response(body=head + items + b"]}", content_type="application/json")

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        cluster, since = self._cluster, int(request.query.get("resourceVersion") or 0)
        response = web.StreamResponse(headers={"content-type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        oldest = cluster.events[0].version if len(cluster.events) == REMEMBERED else cluster.first_version
        if not oldest - 1 <= since <= cluster.version:
            gone = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too long ago"}
            await response.write(json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n")
            return response
        missed = [event.line for event in cluster.events if event.path == request.path and event.version > since]
        watch = (request.path, response)
        self._watches.add(watch)
        try:
            await response.write(b"".join(missed))
            await asyncio.Event().wait()
        finally:
            self._watches.discard(watch)
        return response

    async def _tell(self, *events: Event) -> None:
        for event in events:
            for watched, response in tuple(self._watches):
                if watched == event.path:
                    try:
                        await response.write(event.line)
                    except ConnectionError:
                        self._watches.discard((watched, response))

    async def _emit(self) -> None:
        """As many events and new pods as are due by now."""
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            for _ in range(self._events.due()):
                await self._tell(self._cluster.next_event())
            await self._arrive(self._arrivals.due())

    async def _bookmark(self) -> None:
        while True:
            await asyncio.sleep(_BOOKMARK_SECONDS)
            mark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self._cluster.version)}}}
            line = json.dumps(mark).encode() + b"\n"
            await self._tell(*(Event(path, self._cluster.version, line) for path in (NODES, PODS)))

    async def _set_rate(self, request: web.Request) -> web.Response:
        """``{"rate": 500}`` events a second from now on."""
        self._events.set(float((await request.json())["rate"]))
        return await self._counts(request)

    async def _set_arrivals(self, request: web.Request) -> web.Response:
        """``{"rate": 20, "at_once": 1000}``: ``at_once`` pods come now, and then ``rate`` a second."""
        asked = await request.json()
        await self._arrive(int(asked.get("at_once", 0)))
        self._arrivals.set(float(asked.get("rate", 0)))
        return await self._counts(request)

    async def _next(self, request: web.Request) -> web.Response:
        """``{"name": ..., "units": ...}`` of a pod that has come; 204 if none comes in a while."""
        try:
            async with asyncio.timeout(_NEXT_SECONDS):
                pod = await self._come.get()
        except TimeoutError:
            return web.Response(status=204)
        return web.json_response({"name": pod.name, "units": pod.units})

    async def _arrive(self, count: int) -> None:
        for _ in range(count):
            pod, event = self._cluster.arrive()
            await self._tell(event)
            self._come.put_nowait(pod)

    async def _counts(self, request: web.Request) -> web.Response:
        counts = {name: self._cluster.counts[name] for name in _COUNTS}
        cards = [
            f"{'all cards' if card is None else f'card {card}'} of {node}: {used} of {units}"
            for (node, card), (used, units) in self._cluster.over_booked_cards.items()
        ]
        return web.json_response({**counts, "running": len(self._cluster.running), "over_booked_cards": cards})

    async def _placed(self, request: web.Request) -> web.Response:
        """By pod, the node that each was bound to."""
        return web.json_response(self._cluster.placed)

    async def _bind(self, request: web.Request) -> web.Response:
        binding = json.loads(await request.read())
        index = str((binding["metadata"].get("annotations") or {}).get(wire.ANNOTATION_INDEX, ""))
        card = int(index) if _INDEX.fullmatch(index) else None
        events = self._cluster.bind(request.match_info["name"], binding["target"]["name"], card)
        if not events:
            return _refusal(409, "Conflict", "the pod does not wait")
        # An extender hears of a bind while it has its answer, as from a real API server, not before it.
        task = asyncio.create_task(self._tell(*events))
        await asyncio.sleep(0)
        await task
        return web.json_response({"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}, status=201)

    async def _get_pod(self, request: web.Request) -> web.Response:
        pod = self._cluster.pod(request.match_info["name"])
        if pod is None:
            return _refusal(404, "NotFound", "no pod that waits")
        return web.Response(body=pod, content_type="application/json")

    async def _patch(self, request: web.Request) -> web.Response:
        """Taken and forgotten: an extender that calls pods which wait changes nothing of the world."""
        return web.Response(
            body=node_object(self._cluster.nodes[0], self._cluster.version), content_type="application/json"
        )


def _refusal(code: int, reason: str, message: str) -> web.Response:
    status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return web.json_response(status, status=code)


def main(argv: Sequence[str] | None = None) -> int:
    """Until it is killed; 1 if the cluster's file cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m load.simulated.api_server", description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="port on 127.0.0.1")
    parser.add_argument("--cluster", type=Path, required=True, help="a file as those of clusters/simulated/load")
    flags = parser.parse_args(argv)
    return exit_code("simulated API server", lambda: asyncio.run(_serve(flags)))


async def _serve(flags: argparse.Namespace) -> int:
    world = build(read(flags.cluster))
    api = Api(Cluster(world))
    runner = web.AppRunner(api.application(), access_log=None, handle_signals=False)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", flags.port).start()
    print(f"serves {len(world.nodes)} nodes from {world.nodes[0].name} on", flush=True)
    await api.tick()
    return 0


if __name__ == "__main__":
    sys.exit(main())
