"""Which clusters of this user are up: one small file each, so that ``down`` can end what a closed terminal left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

# How long a cluster may take to end, in seconds.
_END_SECONDS: Final = 30.0


def _folder() -> Path:
    """Ours alone: another user's file in a shared folder must not name a process for us to end."""
    folder = Path(tempfile.gettempdir()) / f"gpushare-clusters-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid() or folder.is_symlink():
        raise PermissionError(f"{folder} is not this user's; remove it")
    return folder


@contextlib.contextmanager
def record() -> Iterator[None]:
    """While inside, this process is known as a running cluster."""
    path = _folder() / str(os.getpid())
    path.write_text(_started(os.getpid()) or "")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def end_all(say: Callable[[str], None]) -> int:
    """End every recorded cluster with SIGTERM; exit code 0 when none is left."""
    records = sorted(_folder().iterdir())
    left = 0
    for path in records:
        pid = int(path.name)
        # A pid alone may by now be somebody else's: the start time makes it certain.
        if path.read_text() and _started(pid) == path.read_text():
            say(f"ending the cluster of process {pid}")
            os.kill(pid, signal.SIGTERM)
            if not _wait_for_end(pid, path.read_text()):
                say(f"process {pid} did not end in {_END_SECONDS:.0f} s")
                left += 1
                continue
        path.unlink(missing_ok=True)
    if not records:
        say("no cluster is up")
    return 1 if left else 0


def _wait_for_end(pid: int, started: str) -> bool:
    """It may have ended already."""
    deadline = time.monotonic() + _END_SECONDS
    while time.monotonic() < deadline:
        if _started(pid) != started:
            return True
        time.sleep(0.1)
    return False


def _started(pid: int) -> str | None:
    """When a process started, as the kernel counts it, or None when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command in parentheses may hold blanks; the 20th field after it is the start time.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]
