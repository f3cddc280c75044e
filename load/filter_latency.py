"""How long ``/filter`` takes over HTTP, at concurrency 1 as kube-scheduler asks, beside a server that does nothing.

``make bench``: an embedded API server with simulated nodes, the extender as a process of its own, one connection that is kept.
Both servers are asked in turn, so that the machine's drift hits both; quote the ratio, the absolute times are this machine's.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import httpx2
import uvicorn

from clusters.api_client import ApiClient
from clusters.embedded.apiserver.server import EmbeddedApi
from clusters.ports import free_port
from clusters.program import Program
from clusters.resources import NODES
from clusters.targets import load_target

_UNITS: Final = 14
_CARDS: Final = 8


def main(argv: Sequence[str] | None = None) -> int:
    """Prints one table; exit code 0, or 1 when something could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m load.filter_latency", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000, help="simulated nodes of 8 cards (default: %(default)s)")
    parser.add_argument("--names", type=int, default=500, help="names in each question (default: %(default)s)")
    parser.add_argument("--requests", type=int, default=1000, help="questions to each server (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="for the order of the names (default: %(default)s)")
    arguments = parser.parse_args(argv)
    if not 0 < arguments.names <= arguments.nodes:
        parser.error("--names must be between 1 and --nodes")
    return asyncio.run(measure(arguments))


async def measure(arguments: argparse.Namespace) -> int:
    """Bring both servers up, ask both, print."""
    target = load_target("gpushare")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
        "LOG_LEVEL": "warn",
    }
    server = EmbeddedApi()
    url = await server.start()
    with tempfile.TemporaryDirectory(prefix="gs-") as name:
        folder = Path(name)
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(server.kubeconfig(url))
        async with ApiClient.from_kubeconfig(kubeconfig) as api:
            print(f"loading {arguments.nodes} simulated nodes of {_CARDS} cards")
            for number in range(arguments.nodes):
                await api.create(node(number))
                await api.patch(NODES, f"node-{number:05}", {"status": status()}, subresource="status")
            port = free_port()
            argv, own = target.extender.command(port=str(port), kubeconfig=str(kubeconfig))
            extender = Program("extender", argv, {**environment, **own, "LOG_LEVEL": "warn"}, folder / "extender.log")
            await extender.launch(lambda: is_ready(f"http://127.0.0.1:{port}{target.extender.ready}"))
            idle = await start_idle(arguments)
            try:
                times = await asyncio.to_thread(ask_both, arguments, port, idle.port)
            finally:
                idle.server.should_exit = True
                await idle.serving
                await extender.stop()
    await server.stop()
    report(arguments, *times)
    return 0


def node(number: int) -> dict[str, Any]:
    """A node without its numbers."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{number:05}", "labels": {"gpushare": "true"}},
    }


def status() -> dict[str, Any]:
    """Eight cards of 14 units."""
    amounts = {
        "cpu": "64",
        "memory": "512Gi",
        "aliyun.com/gpu-mem": str(_UNITS * _CARDS),
        "aliyun.com/gpu-count": str(_CARDS),
    }
    return {"capacity": amounts, "allocatable": amounts}


async def is_ready(url: str) -> bool:
    """Does the extender answer its readiness?"""
    try:
        async with httpx2.AsyncClient(trust_env=False) as client:
            return (await client.get(url)).status_code == 200
    except httpx2.TransportError:
        return False


class Idle:
    """A server that reads the question and answers a text made beforehand: the floor of HTTP in this stack."""

    def __init__(self, answer: bytes) -> None:
        self.port = free_port()
        self._answer = answer
        config = uvicorn.Config(self, host="127.0.0.1", port=self.port, lifespan="off", log_config=None)
        self.server = uvicorn.Server(config)
        self.serving = asyncio.create_task(self.server.serve())

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Read all, answer the same."""
        while (await receive()).get("more_body"):
            pass
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(self._answer)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": self._answer})


async def start_idle(arguments: argparse.Namespace) -> Idle:
    """The idle server, listening."""
    names = [f"node-{number:05}" for number in range(arguments.names)]
    answer: dict[str, Any] = {
        "Nodes": None,
        "NodeNames": names,
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }
    idle = Idle(json.dumps(answer, separators=(",", ":")).encode())
    async with asyncio.timeout(30):
        while not idle.server.started:  # noqa: ASYNC110  # uvicorn has no event for it
            await asyncio.sleep(0.01)
    return idle


def questions(arguments: argparse.Namespace) -> list[bytes]:
    """A pod of about 5 kB, and a window of names that rotates, as kube-scheduler's does."""
    rng = random.Random(arguments.seed)  # an order, no secret
    names = [f"node-{number:05}" for number in range(arguments.nodes)]
    environment = [{"name": f"VARIABLE_{number}", "value": "x" * 30} for number in range(60)]
    container = {
        "name": "main",
        "image": "app:1",
        "env": environment,
        "resources": {"limits": {"aliyun.com/gpu-mem": "3"}},
    }
    pod = {"metadata": {"name": "asks", "namespace": "default", "uid": "u"}, "spec": {"containers": [container]}}
    bodies = []
    for _ in range(50):
        start = rng.randrange(arguments.nodes)
        window = (names + names)[start : start + arguments.names]
        bodies.append(json.dumps({"Pod": pod, "Nodes": None, "NodeNames": window}).encode())
    return bodies


def ask_both(arguments: argparse.Namespace, port: int, idle_port: int) -> tuple[list[float], list[float]]:
    """Microseconds of each question, to the extender and to the idle server, asked in turn."""
    connections = [http.client.HTTPConnection("127.0.0.1", one) for one in (port, idle_port)]
    times: tuple[list[float], list[float]] = ([], [])
    bodies = questions(arguments)
    for number in range(arguments.requests + 100):
        body = bodies[number % len(bodies)]
        for connection, taken in zip(connections, times, strict=True):
            begin = time.perf_counter()
            connection.request("POST", "/gpushare-scheduler/filter", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
            if number >= 100:
                taken.append((time.perf_counter() - begin) * 1e6)
            if (
                answer.status != 200
                or json.loads(text)["Error"]
                or len(json.loads(text)["NodeNames"]) != arguments.names
            ):
                raise RuntimeError(f"not an answer to measure: {answer.status} {text[:200]!r}")
    for connection in connections:
        connection.close()
    return times


def report(arguments: argparse.Namespace, ours: list[float], idle: list[float]) -> None:
    """One row each, and the ratio."""
    print(
        f"/filter, {arguments.names} names of {arguments.nodes} nodes, {arguments.requests} requests, one connection, microseconds"
    )
    print(f"{'server':<12}{'p50':>8}{'p99':>8}")
    rows = {"extender": ours, "does nothing": idle}
    quantiles = {name: statistics.quantiles(taken, n=100) for name, taken in rows.items()}
    for name, cuts in quantiles.items():
        print(f"{name:<12}{cuts[49]:>8.0f}{cuts[98]:>8.0f}")
    a, b = quantiles["extender"], quantiles["does nothing"]
    print(f"{'ratio':<12}{a[49] / b[49]:>8.2f}{a[98] / b[98]:>8.2f}")


if __name__ == "__main__":
    sys.exit(main())
