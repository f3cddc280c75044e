"""Records of processes that run: which clusters of this user are up, so that ``down`` can end what a closed terminal left behind.

Each process locks its file, so that what a killed one left is known. The lock is the kernel's and ends with the process, however
that ends: a record without a lock is of a process that is gone. A cluster's record names the process and the checkout that it
belongs to. ``down`` ends the clusters of its own checkout; ``--all`` ends those of other checkouts too. A pid that belongs to
another process by now is never signalled: its record has no lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Final

import msgspec

CHECKOUT: Final = str(Path(__file__).resolve().parents[2])
# How long a cluster may take to end, in seconds.
_END_SECONDS: Final = 30.0
# A record is a path of up to 4096 bytes and a few words; whatever is longer is none.
_LONGEST: Final = 20_000


class Cluster(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One cluster that is up: its process, and the root of the checkout whose ``python -m clusters`` started it."""

    # Up to the kernel's PID_MAX_LIMIT; 0 and below are groups of processes.
    pid: Annotated[int, msgspec.Meta(gt=1, le=4_194_304)]
    checkout: str


@contextlib.contextmanager
def record(checkout: str = CHECKOUT) -> Iterator[None]:
    """While inside, this process is known as a running cluster of that checkout."""
    with locked_record(_folder() / str(os.getpid()), Cluster(os.getpid(), checkout)):
        yield


def end_all(say: Callable[[str], None], *, everywhere: bool = False, checkout: str = CHECKOUT) -> int:
    """End this checkout's clusters with SIGTERM, or those of every checkout; exit code 0 if none of them is left."""
    ended = left = elsewhere = 0
    for path in sorted(_folder().iterdir()):
        cluster = _read(path, say)
        if cluster is None:
            continue
        if not everywhere and cluster.checkout != checkout:
            elsewhere += is_live(path)
            continue
        if not _end(path, cluster, say):
            left += 1
            continue
        ended += 1
        path.unlink(missing_ok=True)
    if elsewhere:
        say(f"{elsewhere} of other checkouts stay up; `python -m clusters down --all` ends them too")
    elif not ended + left:
        say("no cluster is up")
    return 1 if left else 0


def _folder() -> Path:
    return make_own_folder(Path(tempfile.gettempdir()) / f"gpushare-clusters-{os.getuid()}")


def _read(path: Path, say: Callable[[str], None]) -> Cluster | None:
    """The cluster of a file; None for a file that is no record of ours, which stays and gets a line."""
    try:
        if path.lstat().st_uid != os.getuid() or not path.is_file() or path.is_symlink():
            raise ValueError("it is not a file of this user")
        with path.open() as file:
            cluster = msgspec.json.decode(file.read(_LONGEST), type=Cluster)
        if path.name != str(cluster.pid):
            raise ValueError("it names no process")
    except FileNotFoundError:
        # Its cluster has ended since the folder was listed.
        return None
    except (OSError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        say(f"skipping {path}, which is no record of a cluster ({error}); remove it if nothing needs it")
        return None
    return cluster


def _end(path: Path, cluster: Cluster, say: Callable[[str], None]) -> bool:
    """End it and wait until it has ended; True also if it had ended before."""
    # While the record is locked the number is its own process's.
    if not is_live(path):
        return True
    say(f"ending the cluster of process {cluster.pid}, of {cluster.checkout}")
    if signalled(cluster.pid, signal.SIGTERM, lambda: is_live(path), _END_SECONDS):
        return True
    say(f"process {cluster.pid} did not end in {_END_SECONDS:.0f} s")
    return False


@contextlib.contextmanager
def locked_record(path: Path, facts: msgspec.Struct) -> Iterator[None]:
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
    """Signal a process, and wait for its end for these seconds at most; True if it has ended, now or before.

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
