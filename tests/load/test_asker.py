"""The program that asks the servers: its own work between questions."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from load.bench.asker import Asked, ask_round
from load.bench.bench_questions import Connection

PAUSE = 0.02


class Empty(BaseHTTPRequestHandler):
    """Answers a POST with nothing, on a connection that stays."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args) -> None:
        """It is not read."""


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Empty) as found:
        threading.Thread(target=found.serve_forever).start()
        yield f"http://127.0.0.1:{found.server_address[1]}"
        found.shutdown()


def test_the_pause_before_a_question_is_no_part_of_its_time(server) -> None:
    """All times and all pauses together are no longer than the round."""
    asked = [Asked(name, True, Connection(server), []) for name in ("one", "other")]
    began = time.perf_counter()
    ask_round(asked, [b"{}"] * 3, PAUSE)
    took = time.perf_counter() - began
    times = [one for server in asked for one in server.microseconds]
    assert len(times) == 6
    assert sum(times) / 1e6 + 6 * PAUSE <= took
    for one in asked:
        one.connection.close()
