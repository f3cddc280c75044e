"""Find a process of ours again, and end it: by its own pid, and only while it is what it was."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_LOOK_SECONDS: Final = 0.1
# The kernel may still write what a killed process had open.
_KILL_SECONDS: Final = 10.0


def with_argument(argument: str) -> list[int]:
    """The pids of the processes that have exactly this argument, oldest number first: a path of ours in it makes them ours."""
    wanted = argument.encode()
    return [pid for pid in _pids() if wanted in _arguments(pid)]


def with_argument_under(folder: Path) -> list[int]:
    """The pids of the processes that have an argument below this folder."""
    start = f"{folder}/".encode()
    return [pid for pid in _pids() if any(one.startswith(start) for one in _arguments(pid))]


def end(pids: Iterable[int], seconds: float) -> list[int]:
    """Ask them to end, and kill those that have not after this time; the pids of those that were killed."""
    running = [pid for pid in pids if _signal(pid, signal.SIGTERM)]
    left = _wait(running, seconds)
    kill(left)
    return left


def kill(pids: Iterable[int]) -> None:
    """Kill them, and wait until they are gone."""
    _wait([pid for pid in pids if _signal(pid, signal.SIGKILL)], _KILL_SECONDS)


def alive(pid: int) -> bool:
    """Is there such a process, and not only its exit code?"""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def _wait(pids: list[int], seconds: float) -> list[int]:
    deadline = time.monotonic() + seconds
    while (left := [pid for pid in pids if alive(pid)]) and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
    return left


def _signal(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def _pids() -> list[int]:
    return sorted(int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())


def _arguments(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []
