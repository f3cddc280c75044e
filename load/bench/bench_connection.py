"""One HTTP/1.1 connection of a client that does as little as can be: made bytes out, whole answers in."""

from __future__ import annotations

import re
import socket
import ssl
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

_READ_SIZE: Final = 1 << 20
_TIMEOUT_SECONDS: Final = 60.0
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


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
