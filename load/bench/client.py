"""``python -m load.bench.client``: asks servers the same filter questions in turn.

A process of its own that does nothing else; what to do comes as JSON on standard input, the microseconds go to
standard output. kube-scheduler asks one question after the other, with work of its own between them, so this does. All bytes
are made before a clock runs, and the client does as little as can be: made bytes out, whole answers in.
"""

from __future__ import annotations

import gc
import random
import re
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from load.bench.bench_figures import ROUND
from load.load_commands import apart
from load.questions import PREFIX, WrongAnswerError, arguments, fitting, pod_in_question
from load.simulated.cluster_file import node_names, read

# Questions before those that count: whatever a server does once is done, and each answer is read.
_WARM_UP: Final = ROUND
_READ_SIZE: Final = 1 << 20
_TIMEOUT_SECONDS: Final = 60.0
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
# The least and the most share of the nodes that may fit.
_SHARES: Final = {"all": (0.9, 1.0), "half": (0.2, 0.8), "none": (0.0, 0.0)}


class Answer(NamedTuple):
    """The answer."""

    status: int
    body: bytes


class Connection:
    """To the server at a URL, kept. Raises OSError if there is none."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname, parts.port or 80), timeout=_TIMEOUT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: bytes) -> Answer:
        """Send one request and wait for its answer. Raises ConnectionError if the server hangs up."""
        self._socket.sendall(request)
        data = bytearray()
        while (answer := whole_answer(data)) is None:
            piece = self._socket.recv(_READ_SIZE)
            if not piece:
                raise ConnectionError("the server closed the connection")
            data += piece
        return answer


def whole_answer(data: bytes | bytearray) -> Answer | None:
    """The answer in the bytes so far, or None while some are still to come. Raises ConnectionError for one without a length."""
    end = data.find(b"\r\n\r\n") + 4
    if end < 4:
        return None
    length = _LENGTH.search(data, 0, end)
    if length is None:
        raise ConnectionError(f"an answer without Content-Length: {bytes(data[:80])!r}")
    return Answer(int(data[9:12]), bytes(data[end:])) if len(data) >= end + int(length[1]) else None


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
        """The question as it goes over the wire, as Go's client writes it."""
        path = f"/{self.size}" if self.does_nothing else f"{PREFIX}/filter"
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: {len(body)}\r\n"
            "Content-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
        )
        return head.encode() + body


@dataclass(frozen=True, slots=True)
class Question:
    """Each is about ``count`` of the names; ``fit`` is which part of these must hold a pod of so many ``units``."""

    names: Sequence[str]
    count: int
    fit: str
    units: int

    def made(self, first: int, rng: random.Random) -> list[tuple[bytes, list[str]]]:
        """One round of ``ExtenderArgs``, about the pods from ``first`` on, each with its names in a new order."""
        asked = [rng.sample(self.names, self.count) for _ in range(ROUND)]
        pods = (pod_in_question(f"asks-{first + number}", self.units) for number in range(ROUND))
        return [(arguments(pod, names), names) for pod, names in zip(pods, asked, strict=True)]

    def check(self, answer: bytes, names: Sequence[str]) -> None:
        """Raises WrongAnswerError for an answer that makes no sense."""
        passed = len(fitting(answer, names))
        least, most = _SHARES[self.fit]
        if not least <= passed / self.count <= most:
            raise WrongAnswerError(f"{passed} of {self.count} nodes fit, and {self.fit} should")


def ask(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """The times of each server; the first is an extender. Raises WrongAnswerError, OSError."""
    servers = [Asked(one["name"], one["does_nothing"], Connection(one["url"]), []) for one in plan["servers"]]
    question = Question(node_names(read(Path(plan["cluster"]))), plan["names"], plan["fit"], plan["units"])
    rng = random.Random(f"questions {plan['seed']}")  # an order, no secret
    warm_up(servers, question, rng)
    gc.disable()
    asked = 0
    while asked < plan["questions"]:
        bodies = [body for body, _ in question.made(asked, rng)][: plan["questions"] - asked]
        ask_round(servers, bodies, plan["pause_ms"] / 1000)
        asked += len(bodies)
    return [
        {"microseconds": one.microseconds, "asked": asked + _WARM_UP, "answer_bytes": one.answer_bytes / asked}
        for one in servers
    ]


def warm_up(servers: list[Asked], question: Question, rng: random.Random) -> None:
    """Ask and read each answer; the server that does nothing answers as many bytes as the first one does."""
    made = question.made(0, rng)
    for one in servers:
        size = 0
        for body, names in made:
            answer = one.connection.ask(one.request(body))
            if answer.status != 200:
                raise WrongAnswerError(f"{one.name}: status {answer.status}: {answer.body[:200]!r}")
            if not one.does_nothing:
                question.check(answer.body, names)
            size += len(answer.body)
        if one is servers[0]:
            for other in servers:
                other.size = size // len(made)


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
    sys.exit(apart("bench client", ask))
