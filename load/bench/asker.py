"""``python -m load.bench.asker``: asks several servers the same filter questions in turn, on one connection each.

A process of its own that does nothing else; what to ask comes as JSON on standard input, the microseconds go to standard output.
kube-scheduler asks one question after the other, with work of its own between them, so this does. All bytes are made before the
clock of a round runs.
"""

from __future__ import annotations

import gc
import random
import sys
import time
from dataclasses import dataclass
from typing import Any, Final

from load.bench.bench_figures import ROUND
from load.bench.bench_questions import PREFIX, Connection, TlsFiles, filter_bodies, head, wrong_with
from load.load_commands import apart
from load.questions import WrongAnswerError
from load.simulated.simulated_world import node_name

# Questions before those that count: whatever a server does once is done, and each answer is read.
_WARM_UP: Final = ROUND


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
    """The times of each server. Raises WrongAnswerError, OSError."""
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
    for server in servers:
        server.connection.close()
    return [
        {"microseconds": one.microseconds, "asked": asked + _WARM_UP, "answer_bytes": one.answer_bytes / asked}
        for one in servers
    ]


def warm_up(servers: list[Asked], bodies: list[bytes], count: int, fit: str) -> None:
    """Ask and read each answer; the server that does nothing answers as many bytes as the first one does."""
    for one in sorted(servers, key=lambda server: server.does_nothing):
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


if __name__ == "__main__":
    sys.exit(apart("asker", ask))
