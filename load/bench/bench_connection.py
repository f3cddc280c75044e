"""One HTTP/1.1 connection of a client that does as little as can be: made bytes out, whole answers in."""

from __future__ import annotations

import re
import socket
import ssl
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import urlsplit

_READ_SIZE: Final = 1 << 20
_TIMEOUT_SECONDS: Final = 60.0
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED: Final = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)


class Answer(NamedTuple):
    """The answer."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class TlsClient:
    """Paths of what a caller shows (PEM) and of the authority that it believes."""

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

    def __init__(self, url: str, tls: TlsClient | None = None) -> None:
        parts = urlsplit(url)
        host, port = parts.hostname or "127.0.0.1", parts.port or 80
        self.socket = socket.create_connection((host, port), timeout=_TIMEOUT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = tls.context().wrap_socket(self.socket, server_hostname=host)
        self._pieces: list[bytes] = []

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
        self._pieces.append(piece)
        answer = whole_answer(self._pieces)
        if answer is not None:
            self._pieces = []
        return answer

    def close(self) -> None:
        """Hang up."""
        self.socket.close()


def whole_answer(pieces: list[bytes]) -> Answer | None:
    """The answer in the bytes so far, or None while some are still to come; joins the pieces if it must."""
    data = pieces[0]
    end = data.find(b"\r\n\r\n") + 4
    if end < 4:
        if len(pieces) > 1:
            pieces[:] = [b"".join(pieces)]
            return whole_answer(pieces) if b"\r\n\r\n" in pieces[0] else None
        return None
    status = int(data[9:12])
    length = _LENGTH.search(data, 0, end)
    if length is not None:
        if sum(map(len, pieces)) < end + int(length[1]):
            return None
        return Answer(status, b"".join(pieces)[end:])
    if _CHUNKED.search(data, 0, end) is None:
        return Answer(status, b"")
    pieces[:] = [b"".join(pieces)]
    return Answer(status, _unchunked(pieces[0][end:])) if pieces[0].endswith(b"\r\n0\r\n\r\n") else None


def _unchunked(data: bytes) -> bytes:
    """A body from its chunks."""
    body, at = [], 0
    while (size := int(data[at : (end := data.index(b"\r\n", at))].split(b";")[0], 16)) > 0:
        body.append(data[end + 2 : end + 2 + size])
        at = end + 4 + size
    return b"".join(body)
