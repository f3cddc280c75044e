"""``python -m load.bench.simulated_api_server``: stands in for an API server in front of a world of many pods.

A process of its own: lists in pages, watches, bindings, and so many events a second as it is told (``POST /simulated/events``).
It makes objects from templates, so that 50,000 pods cost it next to nothing and what is measured is who follows it. It
checks nothing: there are no rights, no schemas, no conflicts. Any kind that it does not know has no objects.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from aiohttp import web

from load.bench.objects import bound_pod, node_object, running_pod, waiting_pod
from load.bench.worlds import NAMESPACE, World, build, node_name, waiting

NODES: Final = "/api/v1/nodes"
PODS: Final = "/api/v1/pods"
# How often events are due, in seconds, and how often a watch without events hears that it is up to date.
_TICK_SECONDS: Final = 0.005
_BOOKMARK_SECONDS: Final = 30.0
# Of so many events each is about a node, the others about pods.
_NODE_EVENT_OF: Final = 16
# Events that a watch may have missed.
_REMEMBERED: Final = 2000


class Event(NamedTuple):
    """A line of the watch at ``path``, and its version."""

    path: str
    version: int
    line: bytes


class Cluster:
    """The world and what has happened to it since; ``first_version`` is that of its lists before anything has."""

    def __init__(self, world: World, binds: int, seed: int, first_version: int) -> None:
        self.world = world
        self.first_version = self.version = first_version
        self.counts: Counter[str] = Counter()
        self.events: deque[Event] = deque(maxlen=_REMEMBERED)
        self._waiting = waiting(binds)
        self._names = tuple(self._waiting)
        self._bound: dict[str, str] = {}
        self._rng = random.Random(seed)  # an order, no secret
        # What makes one item of a collection by its place, and how many there are.
        self.items: dict[str, tuple[int, Callable[[int], bytes]]] = {
            NODES: (world.nodes, lambda number: node_object(number, self.first_version)),
            PODS: (len(world.pods) + len(self._names), self._pod),
        }

    def waiting_pod(self, name: str) -> bytes | None:
        """One of the pods that wait, or have waited; None for any other."""
        units = self._waiting.get(name)
        if units is None:
            return None
        node = self._bound.get(name)
        return waiting_pod(name, units, self.version) if node is None else bound_pod(name, units, node, 0, self.version)

    def bind(self, name: str, node: str, card: int) -> Event | None:
        """A pod gets its node; None for one that does not wait."""
        if name not in self._waiting or name in self._bound:
            return None
        self._bound[name] = node
        self.counts["binds"] += 1
        return self._event(PODS, bound_pod(name, self._waiting[name], node, card, self.version + 1))

    def next_event(self) -> Event:
        """The status of some pod, or seldom of some node, has changed, as far as its version; the book is the same after it."""
        self.counts["events"] += 1
        if self.counts["events"] % _NODE_EVENT_OF == 0:
            return self._event(NODES, node_object(self._rng.randrange(self.world.nodes), self.version + 1))
        number = self._rng.randrange(len(self.world.pods))
        return self._event(PODS, running_pod(number, self.world.pods[number], self.version + 1))

    def _pod(self, number: int) -> bytes:
        ran = len(self.world.pods)
        if number < ran:
            return running_pod(number, self.world.pods[number], self.first_version)
        pod = self.waiting_pod(self._names[number - ran])
        assert pod is not None
        return pod

    def _event(self, path: str, item: bytes) -> Event:
        self.version += 1
        event = Event(path, self.version, b'{"type":"MODIFIED","object":%b}\n' % item)
        self.events.append(event)
        return event


class Api:
    """The server's handlers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._watches: set[tuple[str, web.StreamResponse]] = set()
        self._rate = 0.0
        self._started = (0.0, 0)

    def application(self) -> web.Application:
        """To serve."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/simulated", self._counts),
                web.post("/simulated/events", self._set_rate),
                web.post(f"/api/v1/namespaces/{NAMESPACE}/pods/{{name}}/binding", self._bind),
                web.get(f"/api/v1/namespaces/{NAMESPACE}/pods/{{name}}", self._get_pod),
                web.get("/{path:.*}", self._collection),
                web.patch("/{path:.*}", self._patch),
            ]
        )
        app.cleanup_ctx.append(self._ticking)
        return app

    async def _ticking(self, app: web.Application) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(one) for one in (self._emit(), self._bookmark())]
        yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _collection(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("watch") in ("1", "true"):
            return await self._watch(request)
        count, make = self._cluster.items.get(request.path, (0, lambda _: b""))
        first = int(request.query.get("continue", 0))
        end = min(count, first + int(request.query.get("limit", 0) or count))
        metadata = {"resourceVersion": str(self._cluster.version)} | ({"continue": str(end)} if end < count else {})
        items = b",".join(map(make, range(first, end)))
        head = b'{"kind":"List","apiVersion":"v1","metadata":%b,"items":[' % json.dumps(metadata).encode()
        return web.Response(body=head + items + b"]}", content_type="application/json")

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        cluster, since = self._cluster, int(request.query.get("resourceVersion") or 0)
        response = web.StreamResponse(headers={"content-type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        oldest = cluster.events[0].version if len(cluster.events) == _REMEMBERED else cluster.first_version
        if not oldest - 1 <= since <= cluster.version:
            gone = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "another world"}
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

    async def _tell(self, path: str, line: bytes) -> None:
        for watched, response in tuple(self._watches):
            if watched == path:
                try:
                    await response.write(line)
                except ConnectionError:
                    self._watches.discard((watched, response))

    async def _emit(self) -> None:
        """As many events as are due by now."""
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            since, told = self._started
            due = int(self._rate * (time.monotonic() - since)) - (self._cluster.counts["events"] - told)
            for _ in range(due if self._rate else 0):
                event = self._cluster.next_event()
                await self._tell(event.path, event.line)

    async def _bookmark(self) -> None:
        while True:
            await asyncio.sleep(_BOOKMARK_SECONDS)
            mark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self._cluster.version)}}}
            for path in (NODES, PODS):
                await self._tell(path, json.dumps(mark).encode() + b"\n")

    async def _set_rate(self, request: web.Request) -> web.Response:
        """``{"rate": 500}`` events a second from now on."""
        self._rate = float((await request.json())["rate"])
        self._started = (time.monotonic(), self._cluster.counts["events"])
        return await self._counts(request)

    async def _counts(self, request: web.Request) -> web.Response:
        return web.json_response({"events": self._cluster.counts["events"], "binds": self._cluster.counts["binds"]})

    async def _bind(self, request: web.Request) -> web.Response:
        binding = json.loads(await request.read())
        card = int((binding["metadata"].get("annotations") or {}).get("ALIYUN_COM_GPU_MEM_IDX") or 0)
        event = self._cluster.bind(request.match_info["name"], binding["target"]["name"], card)
        if event is None:
            return _refusal(409, "Conflict", "the pod does not wait")
        # An extender hears of a bind while it has its answer, as from a real API server, not before it.
        task = asyncio.create_task(self._tell(event.path, event.line))
        await asyncio.sleep(0)
        await task
        return web.json_response({"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}, status=201)

    async def _get_pod(self, request: web.Request) -> web.Response:
        pod = self._cluster.waiting_pod(request.match_info["name"])
        if pod is None:
            return _refusal(404, "NotFound", "no pod that waits")
        return web.Response(body=pod, content_type="application/json")

    async def _patch(self, request: web.Request) -> web.Response:
        """Taken and forgotten: an extender that calls pods which wait changes nothing of the world."""
        return web.Response(body=node_object(0, self._cluster.version), content_type="application/json")


def _refusal(code: int, reason: str, message: str) -> web.Response:
    status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return web.json_response(status, status=code)


@asynccontextmanager
async def serving(cluster: Cluster, port: int) -> AsyncIterator[None]:
    """Serve the cluster on loopback while inside."""
    runner = web.AppRunner(Api(cluster).application(), access_log=None, handle_signals=False, shutdown_timeout=0.5)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        yield
    finally:
        await runner.cleanup()


def main(argv: Sequence[str] | None = None) -> int:
    """Until it is killed."""
    parser = argparse.ArgumentParser(prog="python -m load.bench.simulated_api_server", description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="port on 127.0.0.1")
    parser.add_argument("--nodes", type=int, default=1000, help="nodes (default: %(default)s)")
    parser.add_argument("--pods", type=int, default=10_000, help="pods that run (default: %(default)s)")
    parser.add_argument("--binds", type=int, default=1000, help="pods that wait to be bound (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the world (default: %(default)s)")
    parser.add_argument("--first-version", type=int, default=1000, help="resourceVersion at the start")
    flags = parser.parse_args(argv)
    cluster = Cluster(build(flags.nodes, flags.pods, flags.seed), flags.binds, flags.seed, flags.first_version)
    asyncio.run(_serve(cluster, flags.port))
    return 0


async def _serve(cluster: Cluster, port: int) -> None:
    async with serving(cluster, port):
        print(f"serves {cluster.world.nodes} nodes from {node_name(0)} on", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    sys.exit(main())
