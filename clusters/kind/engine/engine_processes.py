"""End a process of ours: by its pid, and only while it is what was started."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from clusters.processes.locked_records import signalled

_LOOK_SECONDS: Final = 0.1
# The kernel may still write what a killed process had open.
_KILL_SECONDS: Final = 10.0
_PROC: Final = Path("/proc")


def is_running(pid: int, program: str, argument: str) -> bool:
    """Is this pid a process of this program, which the kernel names, with exactly this argument?"""
    try:
        arguments = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return _program(pid) == program and os.fsencode(argument) in arguments


def in_this_network(program: str) -> list[int]:
    """The pids of the processes of this program that share the network of this process."""
    here = str((_PROC / "self/ns/net").readlink())
    pids = sorted(int(path.name) for path in _PROC.iterdir() if path.name.isdigit())
    return [pid for pid in pids if _program(pid) == program and _link(pid, "ns/net") == here]


def end(pid: int, is_ours: Callable[[], bool], seconds: float) -> bool:
    """Ask a process to end, and kill it if it has not after this time; False if it was killed."""
    if signalled(pid, signal.SIGTERM, is_ours, seconds):
        return True
    signalled(pid, signal.SIGKILL, is_ours, _KILL_SECONDS)
    return False


def kill_all(members: Callable[[], set[int]]) -> None:
    """Kill the members of a group until there are none; each is still a member when it is signalled."""
    deadline = time.monotonic() + _KILL_SECONDS
    while (pids := members()) and time.monotonic() < deadline:
        for pid in pids:
            _kill_member(pid, members)
        time.sleep(_LOOK_SECONDS)


def _kill_member(pid: int, members: Callable[[], set[int]]) -> None:
    signalled(pid, signal.SIGKILL, lambda: pid in members(), 0)


def _program(pid: int) -> str:
    """The name of the file that a process runs, "" if it has ended or cannot be seen."""
    return Path(_link(pid, "exe")).name.removesuffix(" (deleted)")


def _link(pid: int, name: str) -> str:
    try:
        return str((_PROC / str(pid) / name).readlink())
    except OSError:
        return ""
