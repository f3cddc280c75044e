"""Ports of loopback."""

from __future__ import annotations

import socket
from typing import Final

_KEPT: Final[list[socket.socket]] = []


def free_port() -> int:
    """A free TCP port of loopback, which the kernel gives to no other process while this one runs.

    It stays bound here and is not listened on. A server may listen on it nevertheless, because servers share addresses
    (SO_REUSEADDR); other searches for a free port, and outgoing connections, pass it over.
    """
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    _KEPT.append(kept)
    return int(kept.getsockname()[1])
