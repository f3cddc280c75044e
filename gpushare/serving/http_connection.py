"""One HTTP/1.1 connection: bytes in, requests to the application, answers out, in their order.

llhttp parses them, through httptools. It has the parts of HTTP that a kube-scheduler, a kubelet's probe and curl need: keep-alive,
pipelining, lengths and chunks of a request, ``Expect: 100-continue``, HEAD. Every answer has a length: without one Go's client
drops the connection after each. Only an answer with an ``audience`` has none, and ends with its connection. A framework would cost
more than the decision that is asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Awaitable, Callable
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final, NamedTuple, cast
from urllib.parse import unquote

import httptools

from gpushare.bounds import BODY_BYTES, BODY_BYTES_OF_STRANGERS, HEAD_BYTES, REQUESTS_AHEAD, Bound
from gpushare.serving.open_connections import Audience, Connections

JSON: Final = b"application/json"
TEXT: Final = b"text/plain; charset=utf-8"
# Those that a request has, in its order.
_HEADERS: Final = (b"host", b"origin", b"content-type")
# A body of these is passed over.
_WITHOUT_BODY: Final = (b"GET", b"HEAD")
# asyncio's TLS holds a write back only while this number of bytes of earlier ones waits.
_SHORT: Final = 64 * 1024
_BUSY: Final = b"too much is on its way in; ask again\n"

_STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
} | {503: b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n"}


class HttpRequest(NamedTuple):
    """A request; ``is_known``: the caller has shown a certificate of ours, or none is needed. A header that is absent is empty."""

    method: str
    path: str
    body: bytes
    is_known: bool
    query: str = ""
    host: str = ""
    origin: str = ""
    content_type: str = ""


class Answer(NamedTuple):
    """An answer; ``headers`` are more lines of its head. One with an ``audience`` has no end: the connection joins it."""

    status: int
    content_type: bytes = TEXT
    body: bytes = b""
    location: bytes = b""
    headers: bytes = b""
    audience: Audience | None = None


Application = Callable[[HttpRequest], Answer | Awaitable[Answer]]

_LARGE_HEAD: Final = Answer(431, body=f"{HEAD_BYTES.refusal}\n".encode())
_MANY_AHEAD: Final = Answer(503, body=f"{REQUESTS_AHEAD.refusal}\n".encode())


class HttpConnection(asyncio.Protocol):
    """A connection, one of ``connections`` from when it is accepted until it is closed.

    Over TLS a caller ``is_known`` by a certificate that it has shown, otherwise each is. ``client`` is its socket until the
    handshake has ended.
    """

    def __init__(
        self,
        application: Application,
        connections: Connections,
        *,
        is_tls: bool,
        now: Callable[[], float],
        largest_body: Bound = BODY_BYTES,
        client: socket.socket | None = None,
    ) -> None:
        self._application = application
        self._connections = connections
        self._now = now
        self._transport: asyncio.Transport
        # The socket until the handshake is complete; from then on the transport has it.
        self._arriving = client
        self.is_known = not is_tls
        self._largest_body = largest_body
        self._parser: Any = httptools.HttpRequestParser(self)
        self._url = b""
        self._method = b""
        self._body = bytearray()
        self._size = self._head_size = 0
        # The client closes after the request that was read last: what it sends behind it is nothing to answer.
        self._is_last = False
        # Bytes of a head, a trailer or a chunk's line that is not complete: the parser keeps them.
        self._unfinished = 0
        self._expects = False
        self._headers = dict.fromkeys(_HEADERS, "")
        self._refusal: Answer | None = None
        self._requests: deque[tuple[HttpRequest | Answer, bool]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._audience: Audience | None = None
        self._is_closing = False
        # When the present state began: waiting for a request, reading one, or waiting until the client takes its answer.
        self.since = now()
        self._is_reading = False
        self._is_stalled = False
        # Bytes of the body that is worked on, and of the last answer.
        self._working = self._answered = 0
        connections.add(self)

    def end_arrival(self) -> None:
        """The handshake has ended: without it there is no connection."""
        if self._arriving is not None:
            self._parser = None
            self._connections.remove(self)

    def waits_longer_than(self, idle: float, transfer: float) -> bool:
        """Has the client asked nothing for too long, or taken too long to ask or to read?

        Time in which we work does not count, nor an answer without an end, and a handshake has a limit of its own.
        """
        if self.is_busy or self._arriving is not None or (self._audience is not None and not self._is_stalled):
            return False
        is_transfer = self._is_reading or self._is_stalled or self._is_closing
        return self._now() - self.since > (transfer if is_transfer else idle)

    @property
    def is_busy(self) -> bool:
        """Does the client wait for us? It does not while its last answer waits to be taken."""
        return self._task is not None and not self._is_stalled

    def give_up(self) -> None:
        """Refuse the body that is on its way in, or close if an answer is not taken; nothing is held for it any more."""
        is_asking = self._is_reading and not self._is_stalled
        self._drop()
        if is_asking:
            self._refuse(Answer(503, body=_BUSY))
            self._go_on()
        else:
            self.abort()

    def close(self) -> None:
        """Close once what is under way is answered."""
        self._is_closing = True
        if self._arriving is not None:
            self.abort()
        elif self._task is None:
            self._transport.close()

    def abort(self) -> None:
        """Close it immediately; a handshake sees the end of the stream, and its transport closes the socket."""
        if self._arriving is None:
            self._connections.remove(self)
            self._transport.abort()
            return
        with contextlib.suppress(OSError):
            self._arriving.shutdown(socket.SHUT_RDWR)

    def send(self, piece: bytes) -> None:
        """A piece of an answer without an end; a client that does not take the last ones misses it."""
        if not self._is_stalled and not self._transport.is_closing():
            self._put(piece)

    # Called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        self._transport = cast("asyncio.Transport", transport)
        self._arriving = None
        # A certificate of another authority has not come so far.
        self.is_known = self.is_known or bool(transport.get_extra_info("peercert"))
        if not self.is_known:
            self._largest_body = BODY_BYTES_OF_STRANGERS
        # An answer of which the client leaves two bytes pauses us. With a limit of 0 asyncio's TLS would pause on an empty buffer.
        self._transport.set_write_buffer_limits(high=1, low=0)
        self.since = self._now()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone. A bind that it asked for goes on; a body that was on its way in is freed.

        The parser knows this object, and this object the parser: without an end to that both, and the body, would stay until
        Python's collector finds them, which is seldom in a program that makes few objects.
        """
        self._drop()
        self._parser = None
        if self._audience is not None:
            self._audience.leave(self)
        self._connections.remove(self)

    def data_received(self, data: bytes) -> None:
        """Some bytes of a request, or of several."""
        if self._refusal is not None or self._is_closing or self._is_last or self._parser is None:
            return
        self._unfinished += len(data)
        try:
            self._parser.feed_data(data)
            if self._unfinished > HEAD_BYTES.most:
                self._fail(_LARGE_HEAD)
        except httptools.HttpParserUpgrade:
            # A client that wants another protocol gets one answer in this one.
            self._is_closing = True
        except (httptools.HttpParserError, ValueError):
            if not self._is_last:
                self._refuse(self._refusal or Answer(400, body=b"this is no HTTP request\n"))
            # It holds what it has read of a header without an end.
            self._parser = None
        self._go_on()
        if self._refusal is None and not self._connections.have_room_for(self):
            self._refuse(Answer(503, body=_BUSY))
            self._go_on()

    def pause_writing(self) -> None:
        """The client does not take its answers; it gets no more until it does."""
        self._is_stalled, self.since = True, self._now()
        self._count()
        if not self._connections.have_room_for(self):
            self.abort()

    def resume_writing(self) -> None:
        """It takes them again."""
        self._is_stalled, self.since = False, self._now()
        self._go_on()

    # Called by the parser

    def on_message_begin(self) -> None:
        """A request begins."""
        self._url, self._body, self._size, self._head_size, self._expects = b"", bytearray(), 0, 0, False
        self._headers = dict.fromkeys(_HEADERS, "")
        self._is_reading, self.since = True, self._now()

    def on_url(self, url: bytes) -> None:
        """The address; maybe in pieces."""
        self._url += url
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Few headers matter; the parser has read the lengths."""
        self._count_head(len(name) + len(value))
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self._expects = True
        elif name in _HEADERS:
            # If there are several, none may be passed over: together they name nothing.
            self._headers[name] += value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """The body comes next."""
        self._unfinished = 0
        self._method = self._parser.get_method()
        # Behind an unanswered request it would come before that one's answer; the client then sends the body without it.
        if self._expects and self._task is None and not self._requests:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._unfinished = 0
        self._size += len(body)
        if self._size > self._largest_body.most:
            self._fail(Answer(413, body=f"{self._largest_body.refusal}\n".encode()))
        if self._method not in _WITHOUT_BODY:
            self._body += body

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._unfinished = 0
        if REQUESTS_AHEAD.exceeded(len(self._requests) + 1):
            self._fail(_MANY_AHEAD)
        path, query = _target(self._url)
        request = HttpRequest(
            self._method.decode("ascii"), path, bytes(self._body), self.is_known, query, *self._headers.values()
        )
        is_kept = self._parser.should_keep_alive()
        self._requests.append((request, is_kept))
        self._is_last = not is_kept
        # From here on its bytes are held by the request.
        self._is_reading, self._body, self._size = False, bytearray(), 0

    # Inside

    def _count_head(self, size: int) -> None:
        """One read may bring several times of what a head may have. Raises ValueError."""
        self._head_size += size
        if HEAD_BYTES.exceeded(self._head_size):
            self._fail(_LARGE_HEAD)

    def _fail(self, answer: Answer) -> None:
        """End the parser's work. Raises ValueError."""
        self._refusal = answer
        raise ValueError

    def _refuse(self, answer: Answer) -> None:
        """The rest of what comes is no request of ours: after this answer, and those before it, nothing is read."""
        self._refusal, self._parser = answer, None
        self._body, self._size, self._unfinished = bytearray(), 0, 0
        self._requests.append((answer, False))

    def _drop(self) -> None:
        """Keep nothing of what the client has sent, or does not take."""
        self._requests.clear()
        self._body, self._size, self._unfinished = bytearray(), 0, 0
        self._connections.hold(self, 0)

    def _count(self) -> None:
        """Count what the client makes us hold: what it has sent, and what it does not take."""
        waiting = sum(len(asked.body) for asked, _ in self._requests)
        untaken = self._answered if self._is_stalled else 0
        self._connections.hold(self, self._unfinished + len(self._body) + waiting + self._working + untaken)

    def _go_on(self) -> None:
        """Answer what is whole, one after the other."""
        while self._requests and self._task is None and not self._is_stalled and not self._transport.is_closing():
            asked, is_kept = self._requests.popleft()
            method = "GET" if isinstance(asked, Answer) else asked.method
            answer = asked if isinstance(asked, Answer) else self._application(asked)
            if isinstance(answer, Answer):
                self._write(method, answer, is_kept)
            else:
                self._working = len(asked.body)
                self._task = asyncio.ensure_future(self._later(method, answer, is_kept))
        self._count()
        self._read_or_not()

    async def _later(self, method: str, answer: Awaitable[Answer], is_kept: bool) -> None:
        try:
            whole = await answer
            self._working = 0
            self._write(method, whole, is_kept)
        except Exception:
            # The client must not wait for an answer that does not come.
            self.abort()
            raise
        finally:
            self._task, self._working = None, 0
            self._go_on()

    def _write(self, method: str, answer: Answer, is_kept: bool) -> None:
        if self._transport.is_closing():
            return
        if answer.audience is not None and method != "HEAD" and not self._is_closing:
            self._join(answer, answer.audience)
            return
        is_kept = is_kept and not self._is_closing
        head = _head(answer, is_kept)
        self._put(head if method == "HEAD" else head + answer.body)
        self.since = self._now()
        if not is_kept:
            self._is_closing = True
            if self._refusal is None:
                self._transport.close()

    def _join(self, answer: Answer, audience: Audience) -> None:
        """Begin an answer without an end; what the client sends behind its request is nothing to answer."""
        self._is_last, self._audience, self.since = True, audience, self._now()
        self._drop()
        audience.join(self)
        self._put(_head(answer, is_kept=False) + answer.body)

    def _put(self, text: bytes) -> None:
        """Write it. It is held as a whole until the client has taken it.

        Over TLS asyncio does not count the bytes that it has passed on to the socket's buffer. A later write waits until that
        buffer is empty, and pauses us: so the last byte of a long text is a write of its own.
        """
        self._answered = len(text)
        if len(text) > _SHORT:
            self._transport.write(memoryview(text)[:-1])
            text = text[-1:]
        self._transport.write(text)

    def _read_or_not(self) -> None:
        """No client can make us hold more requests than one read brings."""
        if self._transport.is_closing():
            return
        if self._requests or self._task is not None:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()


def _head(answer: Answer, is_kept: bool) -> bytes:
    return b"".join(
        (
            _STATUS_LINES[answer.status],
            b"content-length: %d\r\n" % len(answer.body) if answer.audience is None else b"",
            b"location: %s\r\n" % answer.location if answer.location else b"content-type: %s\r\n" % answer.content_type,
            answer.headers,
            b"\r\n" if is_kept else b"connection: close\r\n\r\n",
        )
    )


# A scheduler's two or three, again and again.
@lru_cache(maxsize=64)
def _target(url: bytes) -> tuple[str, str]:
    """Path and query of what a request line names; a proxy's form names a host before it."""
    path, _, query = url.partition(b"?")
    if not path.startswith(b"/"):
        path = httptools.parse_url(url).path or b"/"
    decoded = unquote(path.decode("latin-1")) if b"%" in path else path.decode("latin-1")
    return decoded, query.decode("latin-1")
