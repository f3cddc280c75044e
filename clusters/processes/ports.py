"""Ports of loopback."""

from __future__ import annotations

import atexit
import contextlib
import socket
from typing import Final

_KEPT: Final = contextlib.ExitStack()
atexit.register(_KEPT.close)


def free_port() -> int:
    """A free TCP port of loopback, which the kernel gives to no other process while this one runs.

    It stays bound here and is not listened on. A server may listen on it nevertheless, because servers share addresses
    (SO_REUSEADDR); other searches for a free port, and outgoing connections, pass it over.
    """
    kept = _KEPT.enter_context(socket.socket())
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    return int(kept.getsockname()[1])
