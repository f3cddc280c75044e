"""The questions, as the bytes that go over the wire, made before any clock runs; and the connection that they go over.

The client does as little as can be: made bytes out, whole answers in.
"""

from __future__ import annotations

import json
import random
import re
import socket
import ssl
from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from load.bench.bench_figures import ROUND
from load.questions import WrongAnswerError, arguments, filter_result, pod_in_question
from load.simulated.simulated_world import UNITS_OF, asker_name

PREFIX: Final = "/gpushare-scheduler"
_READ_SIZE: Final = 1 << 20
_TIMEOUT_SECONDS: Final = 60.0
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


def head(path: str, length: int) -> bytes:
    """The first lines of a POST, as Go's client writes them."""
    return (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: {length}\r\n"
        "Content-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
    ).encode()


def filter_bodies(names: Sequence[str], count: int, fit: str, first: int, rng: random.Random) -> list[bytes]:
    """One round of ``ExtenderArgs`` with ``count`` of these names in a new order each, about the waiting pods from ``first`` on."""
    pods = (pod_in_question(asker_name(fit, number), UNITS_OF[fit]) for number in range(first, first + ROUND))
    return [arguments(pod, rng.sample(names, count)) for pod in pods]


def binding_body(name: str, node: str) -> bytes:
    """A Binding, as an extender sends it to the API server, with a card that is as good as any."""
    metadata = {"name": name, "uid": f"uid-{name}", "annotations": {"ALIYUN_COM_GPU_MEM_IDX": "0"}}
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return json.dumps({"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}).encode()


def wrong_with(answer: bytes, count: int, fit: str) -> str:
    """The fault of an answer to a filter question of this many names, "" if it has none."""
    try:
        passed, failed = filter_result(answer)
    except WrongAnswerError as error:
        return f"{error}: {answer[:200]!r}"
    fitting = len(passed)
    if fitting + len(failed) != count:
        return f"it names {fitting} and {len(failed)} nodes of {count}"
    lowest, highest = {"all": (1.0, 1.0), "half": (0.2, 0.8), "none": (0.0, 0.0)}[fit]
    if not lowest <= fitting / count <= highest:
        return f"{fitting} of {count} nodes fit where {fit} should"
    return ""


class Answer(NamedTuple):
    """The answer."""

    status: int
    body: bytes


class TlsFiles(msgspec.Struct, frozen=True):
    """Paths of what a client shows (PEM), and of the authority that it believes."""

    authority: str
    certificate: str
    key: str

    def context(self) -> ssl.SSLContext:
        """For connections to 127.0.0.1."""
        context = ssl.create_default_context(cafile=self.authority)
        context.load_cert_chain(self.certificate, self.key)
        return context


class Connection:
    """To the server at a URL, kept. Raises OSError if there is none."""

    def __init__(self, url: str, tls: TlsFiles | None = None) -> None:
        parts = urlsplit(url)
        host, port = parts.hostname or "127.0.0.1", parts.port or 80
        self.socket = socket.create_connection((host, port), timeout=_TIMEOUT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = tls.context().wrap_socket(self.socket, server_hostname=host)
        self._data = bytearray()

    def ask(self, request: bytes) -> Answer:
        """Send one request and wait for its answer. Raises ConnectionError if the server hangs up."""
        self.socket.sendall(request)
        while (answer := self.receive()) is None:
            pass
        return answer

    def receive(self) -> Answer | None:
        """Read once; the answer if it is whole by now."""
        piece = self.socket.recv(_READ_SIZE)
        if not piece:
            raise ConnectionError("the server closed the connection")
        self._data += piece
        answer = whole_answer(self._data)
        if answer is not None:
            self._data.clear()
        return answer

    def close(self) -> None:
        """Hang up."""
        self.socket.close()


def whole_answer(data: bytes | bytearray) -> Answer | None:
    """The answer in the bytes so far, or None while some are still to come. Raises ConnectionError for one without a length."""
    end = data.find(b"\r\n\r\n") + 4
    if end < 4:
        return None
    length = _LENGTH.search(data, 0, end)
    if length is None:
        raise ConnectionError(f"an answer without Content-Length: {bytes(data[:80])!r}")
    return Answer(int(data[9:12]), bytes(data[end:])) if len(data) >= end + int(length[1]) else None
