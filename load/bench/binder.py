"""``python -m load.bench.binder``: binds pods, a number of them together, on several servers in turn.

A process of its own; what to bind comes as JSON on standard input, seconds and microseconds go to standard output.
kube-scheduler binds each pod in a routine of its own, so a bind does not wait for the one before it.
"""

from __future__ import annotations

import gc
import selectors
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from load.bench.bench_questions import PREFIX, Answer, Connection, binding_body, head
from load.load_commands import CannotMeasureError, apart
from load.questions import binding_arguments
from load.simulated.simulated_world import NAMESPACE

# The answer of a server that does nothing: as many bytes as an extender's `{"Error":""}`.
_ANSWER_BYTES = len(b'{"Error":""}')


class Storm(NamedTuple):
    """One run of binds on one server: how long all took, and each."""

    seconds: float
    microseconds: list[float]


def bind(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """The storm of each server of the plan. Raises CannotMeasureError, OSError."""
    gc.disable()
    storms = [bind_all(one["kind"], one["url"], one["orders"], plan["concurrency"]) for one in plan["servers"]]
    return [storm._asdict() for storm in storms]


def request(kind: str, name: str, node: str) -> bytes:
    """One bind as the server of this kind is asked for it: ``extender``, ``api_server`` or ``nothing``."""
    body = binding_body(name, node) if kind == "api_server" else binding_arguments(name, node)
    paths = {
        "extender": f"{PREFIX}/bind",
        "api_server": f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/binding",
        "nothing": f"/{_ANSWER_BYTES}",
    }
    return head(paths[kind], len(body)) + body


def bind_all(kind: str, url: str, orders: Sequence[tuple[str, str]], concurrency: int) -> Storm:
    """Bind each pod to its node, at most this many together, each on a connection that is kept. Raises as ``bind``."""
    requests = [request(kind, name, node) for name, node in orders]
    connections = [Connection(url) for _ in range(min(concurrency, len(requests)))]
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection.socket, selectors.EVENT_READ, connection)
        storm = _run(selector, connections, requests)
    for connection in connections:
        connection.close()
    return storm


def _run(selector: selectors.BaseSelector, connections: Sequence[Connection], requests: Sequence[bytes]) -> Storm:
    times: list[float] = []
    begun: dict[Connection, float] = {}
    left = iter(requests)
    clock = time.perf_counter
    start = clock()
    for connection, first in zip(connections, left, strict=False):
        begun[connection] = clock()
        connection.socket.sendall(first)
    while begun:
        for key, _ in selector.select(timeout=60) or _silence():
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
    return Storm(clock() - start, times)


def _silence() -> Sequence[tuple[selectors.SelectorKey, int]]:
    raise CannotMeasureError("no answer in a minute")


def _check(answer: Answer) -> None:
    if answer.status not in (200, 201):
        raise CannotMeasureError(f"status {answer.status}: {answer.body[:300]!r}")
    if b'"Error":"' in answer.body and b'"Error":""' not in answer.body:
        raise CannotMeasureError(f"refused: {answer.body[:300]!r}")


if __name__ == "__main__":
    sys.exit(apart("binder", bind))
