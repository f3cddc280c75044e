"""Which runs use the Docker, so that ``down`` never ends it under one.

A run has a file of its own, which its process locks: the kernel drops the lock with the process, however that ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from clusters.processes import running_clusters
from clusters.provider import ClusterError

_RUN: Final = ".run"


class Use(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One run of a checkout; ``what`` it does is for people."""

    checkout: str
    pid: int
    what: str

    def __str__(self) -> str:
        """As a message names it."""
        return f"process {self.pid} of {self.checkout} ({self.what})"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One start, end or new run at a time. The folder stays when the Docker ends, for its lock must be the same file for all.

    Raises ClusterError for a folder that another user made.
    """
    try:
        running_clusters.make_own_folder(folder)
    except PermissionError as error:
        raise ClusterError(str(error)) from error
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def run(folder: Path, checkout: str, what: str) -> Iterator[None]:
    """While inside, this process uses the Docker. Raises as ``locked``."""
    path = folder / f"{os.getpid()}-{os.urandom(4).hex()}{_RUN}"
    with contextlib.ExitStack() as stack:
        with locked(folder):
            stack.enter_context(running_clusters.locked_record(path, Use(checkout, os.getpid(), what)))
        yield


def running(folder: Path) -> list[Use]:
    """The runs with a process that lives; within ``locked``. Files of others go."""
    found = []
    for path in sorted(folder.glob(f"*{_RUN}")):
        if not running_clusters.is_live(path):
            path.unlink(missing_ok=True)
            continue
        try:
            found.append(msgspec.json.decode(path.read_bytes(), type=Use))
        except (OSError, msgspec.MsgspecError):
            # A lock that is held shows a run, also if its file cannot be read.
            found.append(Use("a checkout that is not known", -1, path.name))
    return found


def named(runs: Sequence[Use]) -> str:
    """As a message names them."""
    return ", ".join(map(str, runs))
