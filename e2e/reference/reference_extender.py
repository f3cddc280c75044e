"""An extender by other hands: ``python -m e2e.reference.reference_extender --listen PORT``, KUBECONFIG in the environment."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from aiohttp import web

from clusters.api.api_client import ApiError
from clusters.api.connection import TransportError
from clusters.api.resources import CONFIG_MAPS, NODES, PODS, Resource
from e2e.reference import reference_faults
from e2e.reference.reference_answers import Question, errors, filtered, gpu_nodes, inspected, scores
from e2e.reference.reference_api import Api
from e2e.reference.reference_binding import Binder
from e2e.reference.reference_book import Book, bans
from e2e.reference.reference_pods import Faults, Object

_LOG: Final = logging.getLogger("reference implementation.extender")
_ROOT: Final = "/gpushare-scheduler"
_BAN: Final = "unhealthy-gpu-"
_ROOM: Final = "aliyun.com/gpushare-room"
_CALL_SECONDS: Final = 1.0
# A queue of names is quick: another pod has the name by then only if that pod comes at the same moment.
_QUEUE_SECONDS: Final = 0.005
_MALFORMED: Final = (ValueError, TypeError, AttributeError, KeyError, RecursionError)


class Watcher:
    """Keeps the book as the API server's objects are."""

    def __init__(self, api: Api, book: Book) -> None:
        self._api, self._book, self._faults = api, book, book.faults
        self._seen: set[str] = set()
        self.is_synced = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """For ever."""
        await asyncio.gather(
            self._follow(NODES, self._node), self._follow(PODS, self._pod), self._follow(CONFIG_MAPS, self._ban)
        )

    async def _follow(self, what: Resource, take: Callable[[str, Object], None]) -> None:
        is_blind = what is PODS and "restarts-empty" in self._faults
        async for kind, item in self._api.watch(what, "kube-system" if what is CONFIG_MAPS else None):
            if kind == "SYNCED":
                is_blind = False
                self._seen.add(what.kind)
                if len(self._seen) == 3:
                    self.is_synced.set()
            elif not is_blind:
                take(kind, item)

    def _node(self, kind: str, node: Object) -> None:
        if kind == "DELETED":
            self._book.nodes.pop(node["metadata"]["name"], None)
        else:
            self._book.nodes[node["metadata"]["name"]] = node

    def _ban(self, kind: str, one: Object) -> None:
        name = one["metadata"].get("name", "")
        if name.startswith(_BAN):
            text = (one.get("data") or {}).get("gpus", "")
            self._book.banned[name.removeprefix(_BAN)] = frozenset() if kind == "DELETED" else bans(text, self._faults)

    def _pod(self, kind: str, pod: Object) -> None:
        # A queue of names has passed over the mark, too, if another pod has the name by then.
        is_leaving = kind == "DELETED" or pod["metadata"].get("deletionTimestamp")
        if "d17-keyed-by-name" in self._faults and is_leaving:
            task = asyncio.create_task(self._later(kind, pod))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return
        self._apply(kind, pod)

    def _apply(self, kind: str, pod: Object) -> None:
        if kind == "DELETED":
            self._book.drop(pod["metadata"]["uid"])
        else:
            self._book.put(pod)

    async def _later(self, kind: str, pod: Object) -> None:
        await asyncio.sleep(_QUEUE_SECONDS)
        if not any(_is_successor(one, pod) for one in self._book.pods.values()):
            self._apply(kind, pod)


def _is_successor(one: Object, pod: Object) -> bool:
    """Has another pod the name of this one?"""
    one, pod = one["metadata"], pod["metadata"]
    return (one["namespace"], one["name"]) == (pod["namespace"], pod["name"]) and one["uid"] != pod["uid"]


class Routes:
    """The paths."""

    def __init__(self, book: Book, binder: Binder) -> None:
        self._book, self._binder, self._faults = book, binder, book.faults
        self._refused: dict[str, Question] = {}

    def application(self) -> web.Application:
        """All that is open."""
        app = web.Application(client_max_size=0)
        app.router.add_post(f"{_ROOT}/filter", self.filter)
        app.router.add_post(f"{_ROOT}/bind", self.bind)
        if "d25-no-prioritize" not in self._faults:
            app.router.add_post(f"{_ROOT}/prioritize", self.prioritize)
        app.router.add_get(f"{_ROOT}/inspect", self.inspect)
        app.router.add_get(_ROOT + "/inspect/{node}", self.inspect)
        app.router.add_get("/version", self.version)
        if "original-texts" not in self._faults:
            app.router.add_get("/up", self.version)
        if "d26-profiles-open" in self._faults:
            app.router.add_get("/debug/pprof/", self.version)
        return app

    async def version(self, _: web.Request) -> web.Response:
        """Some text."""
        return web.Response(text="0.1.0" if "original-texts" in self._faults else "a reference implementation")

    async def filter(self, request: web.Request) -> web.Response:
        """Which nodes have a card with room?"""
        body = await request.read()
        try:
            asked = Question(json.loads(body), self._faults)
            for name in asked.names if "d24-node-locked" in self._faults else ():
                async with self._binder.locks[name]:
                    pass
            answer = filtered(self._book, asked)
            if "filter-books" in self._faults and asked.pod is not None and answer["NodeNames"]:
                self._binder.assume(asked.pod, answer["NodeNames"][0])
            if asked.pod is not None and not answer["NodeNames"]:
                self._refused[str((asked.pod.get("metadata") or {}).get("uid"))] = asked
            return web.json_response(answer)
        except _MALFORMED as error:
            return web.json_response(errors(f"cannot read this: {error}"))

    async def call(self, api: Api) -> None:
        """For ever: a node that has room for a pod that was refused changes, so that its scheduler asks again."""
        while "d29-calls-no-pod" not in self._faults:
            await asyncio.sleep(_CALL_SECONDS)
            for uid, asked in list(self._refused.items()):
                fitting = filtered(self._book, asked)["NodeNames"]
                if fitting or uid not in self._book.pods:
                    del self._refused[uid]
                if fitting and uid in self._book.pods:
                    changed = {"metadata": {"annotations": {_ROOM: str(time.time_ns())}}}
                    with contextlib.suppress(ApiError, TransportError):
                        await api.patch(NODES, fitting[0], changed, subresource="status")

    async def prioritize(self, request: web.Request) -> web.Response:
        """How full are they?"""
        body = await request.read()
        try:
            return web.json_response(scores(self._book, Question(json.loads(body), self._faults)))
        except _MALFORMED as error:
            return web.Response(status=400, text=f"cannot read this: {error}")

    async def bind(self, request: web.Request) -> web.Response:
        """Put a pod on a node and a card."""
        body = await request.read()
        try:
            error = await self._binder.bind(Question(json.loads(body), self._faults).order)
        except _MALFORMED as malformed:
            error = f"cannot read this: {malformed}"
        except (TransportError, TimeoutError, OSError) as failed:
            error = f"no answer from the API server: {failed!r}"
        status = 500 if error and "refused-bind-500" in self._faults else 200
        return web.json_response({"Error": error}, status=status)

    async def inspect(self, request: web.Request) -> web.Response:
        """The book, or one node of it."""
        wanted = request.match_info.get("node")
        if wanted is not None and wanted not in self._book.nodes:
            if "d19-unknown-node-panics" in self._faults and request.transport is not None:
                request.transport.abort()
            return web.Response(status=404, text="no such node")
        names = [wanted] if wanted is not None else list(gpu_nodes(self._book))
        if "d18-book-read-in-pieces" in self._faults:
            return web.json_response({"nodes": [await self._in_pieces(name) for name in names]})
        cards = self._book.all_cards(names)
        return web.json_response({"nodes": [inspected(name, cards[name]) for name in names]})

    async def _in_pieces(self, name: str) -> Object:
        """The sums of one moment, and the pods of later ones."""
        node = inspected(name, self._book.all_cards([name])[name])
        for number, device in enumerate(node["devs"]):
            await asyncio.sleep(0.002)
            device["pods"] = inspected(name, self._book.all_cards([name])[name])["devs"][number]["pods"]
        return node


def main() -> None:
    """Run until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listen", type=int, metavar="PORT")
    # The original's flags for its log.
    parser.add_argument("-logtostderr", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--v", "-v", default="0", help=argparse.SUPPRESS)
    parser.add_argument("--dialect", choices=[reference_faults.ORIGINAL])
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(relativeCreated)d %(message)s")
    faults = reference_faults.chosen(arguments, os.environ, "extender")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    port = arguments.listen or int(os.environ["PORT"])
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(_serve(port, Path(os.environ["KUBECONFIG"]), faults))


async def _serve(port: int, kubeconfig: Path, faults: Faults) -> None:
    book = Book(faults)
    async with Api.from_kubeconfig(kubeconfig) as api:
        watcher = Watcher(api, book)
        watching = asyncio.create_task(watcher.run())
        await watcher.is_synced.wait()
        routes = Routes(book, Binder(api, book, time.time_ns))
        calling = asyncio.create_task(routes.call(api))
        runner = web.AppRunner(routes.application(), access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        _LOG.info("at your service on port %d, wrong in: %s", port, ", ".join(sorted(faults)) or "nothing")
        stopped = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        await stopped.wait()
        watching.cancel()
        calling.cancel()
        await runner.cleanup()


if __name__ == "__main__":
    main()
