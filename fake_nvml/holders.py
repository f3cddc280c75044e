"""Processes that wrote their rows themselves: which of them live, and under which pid, by their locks (``layout``, Processes)."""

from __future__ import annotations

import fcntl
import struct
from collections.abc import Iterator
from typing import Final

from fake_nvml.core.layout import FREE, SIZE, Process, StateFile

# struct flock: type, whence, start, length, pid.
_FLOCK: Final = struct.Struct("@hhqqi4x")
_FROM_START: Final = 0


def name_as_seen(content: StateFile, descriptor: int) -> None:
    """In a copy: processes that have ended are gone, and the others have the pid that this reader knows them by."""
    for index, row in _held(content):
        pid = _holder(descriptor, index)
        if pid is None:
            row.kind = FREE
        else:
            row.pid = pid


def clear_ended(content: StateFile, descriptor: int) -> None:
    """In the file itself, as a writer: the rows of processes that have ended are free."""
    for index, row in _held(content):
        if _holder(descriptor, index) is None:
            row.kind = FREE


def _held(content: StateFile) -> Iterator[tuple[int, Process]]:
    rows = ((index, content.processes[index]) for index in range(content.header.process_rows))
    return ((index, row) for index, row in rows if row.held and row.kind != FREE)


def _holder(descriptor: int, row: int) -> int | None:
    """The pid of the process that holds a row; 0 if it cannot be seen from here, None if there is none."""
    question = _FLOCK.pack(fcntl.F_WRLCK, _FROM_START, SIZE + row, 1, 0)
    kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, question))
    return None if kind == fcntl.F_UNLCK else int(pid)
