"""Records of processes that run: files that each process locks, so that what a killed one left is known.

The lock is the kernel's and ends with the process, however that ends: a record without a lock is of a process that is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec


@contextlib.contextmanager
def record(path: Path, facts: msgspec.Struct) -> Iterator[None]:
    """While inside, the file is there, whole and locked. Left with an error it stays, without its lock."""
    partial = path.with_name(f"{path.name}.part")
    # Locked before another process can see it under its name; closed on exec, so that no child holds the lock.
    descriptor = os.open(partial, os.O_CREAT | os.O_RDWR | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(descriptor, msgspec.json.encode(facts))
        partial.rename(path)
        yield
        path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def is_live(path: Path) -> bool:
    """Does the process of this record run?"""
    try:
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def take_over(path: Path, stack: contextlib.ExitStack) -> bool:
    """Lock the record of a process that is gone until ``stack`` ends; False if the process runs, or another took it over."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    stack.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    # Another process may have removed it between opening and locking.
    return path.exists()


def make_own_folder(folder: Path) -> Path:
    """A folder of this user alone: another user's file must not name a process for us. Raises PermissionError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
        raise PermissionError(f"{folder} is not this user's; remove it")
    return folder


def signalled(pid: int, number: signal.Signals, is_ours: Callable[[], bool], seconds: float) -> bool:
    """Signal a process and wait up to so long for its end: has it ended, now or before?

    ``is_ours`` is asked when the number can no longer be given to another process; one that is not ours gets no signal.
    """
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        if not is_ours():
            return True
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, number)
        return bool(select.select([process], [], [], seconds)[0])
    finally:
        os.close(process)
