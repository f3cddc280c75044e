"""Caches of built things: one build at a time in each folder, and what killed builds left there is removed."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

from clusters.provider import ClusterError

# How the folders of builds that are under way begin.
BUILDING: Final = ".building-"


@contextmanager
def locked(folder: Path, command: str, out: TextIO) -> Iterator[None]:
    """Hold the lock on builds in ``folder``. A process that waits prints so as ``command``, and then finds the build done.

    Raises ClusterError if the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as refused:
        raise ClusterError(
            f"{folder}: cannot be written ({refused.strerror}); GPUSHARE_CACHE names another folder"
        ) from refused
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{command}: waiting for another build in {folder}", file=out, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        # Builds that were killed could not remove theirs.
        for left in folder.glob(f"{BUILDING}*"):
            shutil.rmtree(left, ignore_errors=True)
        yield
