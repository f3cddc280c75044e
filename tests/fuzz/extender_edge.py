"""The inputs of a fuzzer and the tests for the extender's edge: bytes of strangers, and the promises about the answers.

The parts are wired as in the extender's main; in place of a socket a transport that keeps what is written, in place of an API
server one that knows no pod and refuses to bind.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import httptools
import msgspec

from gpushare import wire
from gpushare.bounds import BYTES_IN_FLIGHT
from gpushare.extender.bind import Binder
from gpushare.extender.core.book import Book
from gpushare.extender.core.explain import describe_node, nodes_with_cards
from gpushare.extender.core.filter_cache import FilterCache
from gpushare.extender.routes import Routes
from gpushare.extender.verbs import Verbs
from gpushare.kube.api_errors import error_for
from gpushare.kube.client import ApiClient
from gpushare.manifests import Node, Pod
from gpushare.serving.http_connection import HttpConnection
from gpushare.serving.open_connections import Connections
from tests.gpushare.extender.rig import node, pod

# Every answer is one of these; 500 is an unexpected error.
STATUSES: Final = frozenset({200, 301, 308, 400, 404, 405, 413, 431, 503})
# Turns of the loop that an answer may take; a bind asks the API server twice.
_TURNS: Final = 2000


class BrokenError(AssertionError):
    """A promise that these bytes have broken."""


class Edge:
    """One extender with a small cluster: two nodes, a pod on a card, and one that waits. ``is_ready`` answers its probe."""

    def __init__(self, is_ready: Callable[[], bool] = lambda: True) -> None:
        self._loop = asyncio.new_event_loop()
        self._problems: list[object] = []
        self._loop.set_exception_handler(lambda _, context: self._problems.append(context))
        self.book = Book()
        for document in (node("n1", 14, 14), node("n2", 11)):
            self.book.set_node(msgspec.convert(document, Node))
        for document in (pod("held", 4, "n1", 0, uid="uid-1"), pod("waits", 3, uid="uid-2")):
            self.book.set_pod(msgspec.convert(document, Pod))
        binder = Binder(_Refusing(), self.book, clock_ns=lambda: 1, monotonic=time.monotonic)
        verbs = Verbs(
            self.book, binder, FilterCache(), is_ready=is_ready, policy=wire.POLICY_BINPACK, monotonic=time.monotonic
        )
        self._routes = Routes(self.book, verbs, is_ready)
        self._before = self._said()

    def close(self) -> None:
        """End the loop."""
        self._loop.close()

    def feed(self, data: bytes) -> list[int]:
        """One connection with these bytes; the statuses of the answers. Raises BrokenError, and whatever breaks the edge."""
        statuses = self._loop.run_until_complete(self._converse(data))
        if self._problems:
            raise BrokenError(f"unhandled: {self._problems}")
        strange = set(statuses) - STATUSES
        if strange:
            raise BrokenError(f"answered with {strange}")
        if self._said() != self._before:
            raise BrokenError("the book has changed")
        return statuses

    async def _converse(self, data: bytes) -> list[int]:
        """Open a connection, send the bytes, and wait until it is closed."""
        connections = Connections(BYTES_IN_FLIGHT)
        connection = HttpConnection(self._routes, connections, is_tls=False, now=time.monotonic)
        wire_end = _Transport(connection)
        connection.connection_made(wire_end)
        connection.data_received(data)
        for _ in range(_TURNS):
            if wire_end.reads or wire_end.is_closing():
                break
            await asyncio.sleep(0)
        else:
            raise BrokenError("no answer comes")
        wire_end.close()
        await asyncio.wait_for(connections.none_left.wait(), timeout=10)
        if connections.held:
            raise BrokenError(f"{connections.held} bytes are held for a connection that is closed")
        return _statuses(b"".join(wire_end.written))

    def _said(self) -> bytes:
        """All that the extender reports of its book."""
        return msgspec.json.encode(
            ([describe_node(node) for node in nodes_with_cards(self.book.snapshot())], self.book.booked_pods())
        )


class _Transport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.reads = True
        self._protocol = protocol
        self._is_closing = False

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        self.close()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """All is taken at once."""

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True


def _statuses(written: bytes) -> list[int]:
    """Those of the answers, as an HTTP parser reads them. Raises BrokenError if it is not one whole answer after the other."""
    found: list[int] = []
    heads = SimpleNamespace(on_headers_complete=lambda: found.append(parser.get_status_code()))
    parser: Any = httptools.HttpResponseParser(heads)
    # The answer to HEAD has no body, whatever its length is; a connection here asks with it at most once.
    try:
        parser.feed_data(written)
    except httptools.HttpParserError as error:
        if not found:
            raise BrokenError(f"no HTTP: {written[:200]!r}: {error}") from error
    return [status for status in found if status != 100]


class _Refusing(ApiClient):
    """The API server: no object is known, and nothing is bound."""

    def __init__(self) -> None:
        """It needs no connection."""

    async def request(self, method: str, path: str, **_: Any) -> bytes:
        raise error_for(404 if method == "GET" else 409, "", "no", f"{method} {path}")
