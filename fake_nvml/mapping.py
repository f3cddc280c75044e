"""The state file in memory: shared by all processes that map it; one writer at a time, readers beside it.

Readers see a whole write or none of it, also if the writer was killed between two of them (``layout``, Consistency).
On processors with a weaker store order than x86 a reader may, rarely, see a write half; a library in C uses barriers.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import struct
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from fake_nvml.core.layout import FREE, MAGIC, SEQUENCE_OFFSET, SIZE, VERSION, Process, StateFile
from fake_nvml.fake_nvml_errors import StateError

# Attempts of a reader to meet no writer, before it queues behind them.
_READ_ATTEMPTS = 200
# Native, not "<Q": this one is a single load, the other goes byte by byte.
_SEQUENCE = struct.Struct("@Q")
# A file, or a mount, that may only be read.
_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)
_PREFIX = struct.Struct("<8sII")
# struct flock: type, whence (from the start), start, length, pid.
_FLOCK = struct.Struct("@hhqqi4x")


class MappedState:
    """One mapping of one state file. Threads of this process may share it."""

    def __init__(self, path: Path, descriptor: int, *, writable: bool) -> None:
        self.path = path
        self._descriptor = descriptor
        # flock excludes other open files, not other threads on this one.
        self._mutex = threading.Lock()
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        self._map = mmap.mmap(descriptor, SIZE, access=access)
        self._content = StateFile.from_buffer(self._map) if writable else None

    @classmethod
    def open(cls, path: Path) -> Self:
        """Map a state file, for reading only if the file or its mount is. Raises StateError if it is none."""
        descriptor, writable = _open(path)
        try:
            _check(path, descriptor)
            return cls(path, descriptor, writable=writable)
        except BaseException:
            os.close(descriptor)
            raise

    def close(self) -> None:
        """Unmap. Nothing changes for other processes. May be called again."""
        if self._descriptor < 0:
            return
        self._content = None
        # A copy of a reference in some traceback keeps the mapping; it goes with the last of them.
        with contextlib.suppress(BufferError):
            self._map.close()
        os.close(self._descriptor)
        self._descriptor = -1

    def read(self) -> StateFile:
        """A consistent copy: processes that have ended are gone, and the others have the pid that this reader knows them by."""
        content = self._copy()
        for row, pid in self._held(content):
            if pid is None:
                row.kind = FREE
            else:
                row.pid = pid
        return content

    def _copy(self) -> StateFile:
        self._check_open()
        for _ in range(_READ_ATTEMPTS):
            before = self._sequence()
            if before % 2 == 0:
                content = StateFile.from_buffer_copy(self._map)
                if self._sequence() == before:
                    return content
            time.sleep(0)
        with self._locked(fcntl.LOCK_SH):
            return StateFile.from_buffer_copy(self._map)

    @contextlib.contextmanager
    def writing(self) -> Iterator[StateFile]:
        """The content itself, for the caller alone: every reader sees its changes immediately. Check before the first change."""
        self._check_open()
        content = self._content
        if content is None:
            raise StateError(f"{self.path} can only be read here; change it where it is mounted for writing")
        with self._locked(fcntl.LOCK_EX):
            # Odd already if a writer died: stay odd.
            content.header.sequence |= 1
            try:
                for row, pid in self._held(content):
                    if pid is None:
                        row.kind = FREE
                yield content
            finally:
                content.header.wake = (content.header.wake + 1) % 2**32
                content.header.sequence += 1

    @contextlib.contextmanager
    def _locked(self, kind: int) -> Iterator[None]:
        with self._mutex:
            self._check_open()
            fcntl.flock(self._descriptor, kind)
            try:
                yield
            finally:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _held(self, content: StateFile) -> Iterator[tuple[Process, int | None]]:
        """The rows that processes wrote themselves (``layout``, Processes), with the pid of each, None if it has ended.

        The pid is 0 if the process cannot be seen from here.
        """
        for index in range(content.header.process_rows):
            row = content.processes[index]
            if row.held and row.kind != FREE:
                question = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, SIZE + index, 1, 0)
                kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(self._descriptor, fcntl.F_GETLK, question))
                yield row, None if kind == fcntl.F_UNLCK else int(pid)

    def _sequence(self) -> int:
        return int(_SEQUENCE.unpack_from(self._map, SEQUENCE_OFFSET)[0])

    def _check_open(self) -> None:
        if self._descriptor < 0:
            raise StateError(f"{self.path} was closed by this program")


def create_file(path: Path, content: StateFile) -> bool:
    """Write a whole new file, or nothing if something is there already: answers whether it wrote."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.") as draft:
            draft.write(bytes(content))
            draft.flush()
            # Any process of the node may read; only the owner changes.
            Path(draft.name).chmod(0o644)
            with contextlib.suppress(FileExistsError):
                os.link(draft.name, path)
                return True
            return False
    except OSError as error:
        raise StateError(f"{path} cannot be written: {error.strerror}; choose another path") from error


def _open(path: Path) -> tuple[int, bool]:
    try:
        try:
            return os.open(path, os.O_RDWR | os.O_CLOEXEC), True
        except OSError as error:
            if error.errno not in _READ_ONLY:
                raise
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC), False
    except FileNotFoundError as error:
        raise StateError(f"no state file {path}; fake-nvml init makes one") from error
    except OSError as error:
        raise StateError(f"{path} cannot be opened: {error.strerror}") from error


def _check(path: Path, descriptor: int) -> None:
    prefix = os.pread(descriptor, _PREFIX.size, 0)
    magic, version, size = _PREFIX.unpack(prefix.ljust(_PREFIX.size, b"\0"))
    if magic != MAGIC:
        raise StateError(f"{path} is no state file of simulated cards; choose another path")
    if (version, size) != (VERSION, SIZE) or os.fstat(descriptor).st_size != SIZE:
        raise StateError(
            f"{path} is a state file of version {version}, not {VERSION}; delete it and run fake-nvml init"
        )
