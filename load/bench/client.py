"""``python -m load.bench.client``: asks servers the same filter questions in turn, or has them bind pods.

A process of its own that does nothing else; what to do comes as JSON on standard input, the microseconds go to
standard output. kube-scheduler asks one question after the other, with work of its own between them, so this does; and it
binds each pod in a routine of its own, so a bind does not wait for the one before it. All bytes are made before a clock runs.
"""

from __future__ import annotations

import gc
import random
import selectors
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from load.bench.bench_figures import ROUND
from load.bench.bench_questions import (
    PREFIX,
    Answer,
    Connection,
    TlsFiles,
    binding_body,
    filter_bodies,
    head,
    wrong_with,
)
from load.load_commands import CannotMeasureError, apart
from load.questions import WrongAnswerError, binding_arguments
from load.simulated.simulated_world import NAMESPACE, node_name

# Questions before those that count: whatever a server does once is done, and each answer is read.
_WARM_UP: Final = ROUND
# The answer of a server that does nothing to an order to bind: as many bytes as an extender's `{"Error":""}`.
_BOUND_BYTES: Final = len(b'{"Error":""}')


@dataclass(slots=True)
class Asked:
    """A server that is asked; ``size`` is how many bytes it must answer, if it does nothing else."""

    name: str
    does_nothing: bool
    connection: Connection
    microseconds: list[float]
    answer_bytes: int = 0
    size: int = 0

    def request(self, body: bytes) -> bytes:
        """The question as it goes over the wire."""
        return head(f"/{self.size}" if self.does_nothing else f"{PREFIX}/filter", len(body)) + body


def ask(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """The times of each server; the first is an extender. Raises WrongAnswerError, OSError."""
    servers = []
    for one in plan["servers"]:
        tls = TlsFiles(*one["tls"]) if one["tls"] else None
        servers.append(Asked(one["name"], one["does_nothing"], Connection(one["url"], tls), []))
    names = [node_name(number) for number in range(plan["nodes"])]
    rng = random.Random(f"questions {plan['seed']}")  # an order, no secret
    warm_up(servers, filter_bodies(names, plan["names"], plan["fit"], 0, rng), plan["names"], plan["fit"])
    gc.disable()
    asked = 0
    while asked < plan["questions"]:
        bodies = filter_bodies(names, plan["names"], plan["fit"], asked, rng)[: plan["questions"] - asked]
        ask_round(servers, bodies, plan["pause_ms"] / 1000)
        asked += len(bodies)
    return [
        {"microseconds": one.microseconds, "asked": asked + _WARM_UP, "answer_bytes": one.answer_bytes / asked}
        for one in servers
    ]


def warm_up(servers: list[Asked], bodies: list[bytes], count: int, fit: str) -> None:
    """Ask and read each answer; the server that does nothing answers as many bytes as the first one does."""
    for one in servers:
        sizes = []
        for body in bodies[:_WARM_UP]:
            answer = one.connection.ask(one.request(body))
            wrong = f"status {answer.status}" if answer.status != 200 else ""
            wrong = wrong or ("" if one.does_nothing else wrong_with(answer.body, count, fit))
            if wrong:
                raise WrongAnswerError(f"{one.name}: {wrong}")
            sizes.append(len(answer.body))
        if one is servers[0]:
            for other in servers:
                other.size = sum(sizes) // len(sizes)


def ask_round(servers: list[Asked], bodies: list[bytes], pause: float) -> None:
    """Each question to all of them, another one first each time; before each some seconds of work."""
    requests = [(server, [server.request(body) for body in bodies]) for server in servers]
    clock = time.perf_counter
    for at in range(len(bodies)):
        first = at % len(requests)
        for server, made in requests[first:] + requests[:first]:
            request, ask_it = made[at], server.connection.ask
            answered = begun = clock()
            while begun - answered < pause:
                begun = clock()
            answer = ask_it(request)
            server.microseconds.append(round((clock() - begun) * 1e6, 1))
            server.answer_bytes += len(answer.body)
            if answer.status != 200:
                raise WrongAnswerError(f"{server.name}: status {answer.status}: {answer.body[:200]!r}")


def bind(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """How long all binds of each server took, and each one. Raises CannotMeasureError, OSError."""
    gc.disable()
    return [bind_all(one["kind"], one["url"], one["orders"], plan["concurrency"]) for one in plan["servers"]]


def bind_request(kind: str, name: str, node: str) -> bytes:
    """One bind as the server of this kind is asked for it: ``extender``, ``api_server`` or ``nothing``."""
    body = binding_body(name, node) if kind == "api_server" else binding_arguments(name, node)
    paths = {
        "extender": f"{PREFIX}/bind",
        "api_server": f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/binding",
        "nothing": f"/{_BOUND_BYTES}",
    }
    return head(paths[kind], len(body)) + body


def bind_all(kind: str, url: str, orders: Sequence[tuple[str, str]], concurrency: int) -> dict[str, Any]:
    """Bind each pod to its node, at most this many together, each on a connection that is kept. Raises as ``bind``."""
    requests = [bind_request(kind, name, node) for name, node in orders]
    times: list[float] = []
    begun: dict[Connection, float] = {}
    left = iter(requests)
    clock = time.perf_counter
    with selectors.DefaultSelector() as selector:
        connections = [Connection(url) for _ in range(min(concurrency, len(requests)))]
        for connection in connections:
            selector.register(connection.socket, selectors.EVENT_READ, connection)
        start = clock()
        for connection, first in zip(connections, left, strict=False):
            begun[connection] = clock()
            connection.socket.sendall(first)
        while begun:
            ready = selector.select(timeout=60)
            if not ready:
                raise CannotMeasureError("no answer in a minute")
            for key, _ in ready:
                connection = key.data
                answer = connection.receive()
                if answer is None:
                    continue
                _check(answer)
                times.append(round((clock() - begun.pop(connection)) * 1e6, 1))
                following = next(left, None)
                if following is not None:
                    begun[connection] = clock()
                    connection.socket.sendall(following)
        return {"seconds": clock() - start, "microseconds": times}


def _check(answer: Answer) -> None:
    if answer.status not in (200, 201) or (b'"Error":"' in answer.body and b'"Error":""' not in answer.body):
        raise CannotMeasureError(f"a bind was answered {answer.status}: {answer.body[:300]!r}")


if __name__ == "__main__":
    sys.exit(apart("bench client", lambda plan: bind(plan) if "concurrency" in plan else ask(plan)))
