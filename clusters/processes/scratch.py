"""A folder that does not outlive this process."""

from __future__ import annotations

import atexit
import contextlib
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

# Waits until the other end of its standard input is closed, then removes the folder; programs that are being killed may
# still be writing into it, so that it tries again.
_REMOVE: Final = (
    'cat >/dev/null; for attempt in 1 2 3 4 5 6 7 8 9; do rm -rf -- "$1" && exit 0; sleep 0.2; done; exit 1'
)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new folder of a short path (unix sockets hold 107 bytes), removed afterwards, also when this process is killed."""
    folder = tempfile.mkdtemp(prefix="gs-", dir="/tmp")  # short; unguessable
    # A process of its own does it in either case: what is tried every time can be trusted when it counts.
    remover = subprocess.Popen(
        ["/bin/sh", "-c", _REMOVE, "gpushare-remover", folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert remover.stdin is not None
    try:
        yield Path(folder)
    finally:
        remover.stdin.close()
        remover.wait()


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
