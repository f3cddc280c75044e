"""Which runs have a kind cluster: a locked file for each, so that the next run can remove what a killed one left behind.

The lock is the kernel's and ends with the process, however that ends; a file without a lock is of a run that is gone. The
files lie in the user's cache and not in /tmp: a restart of the machine empties that, and the stopped containers would stay.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

_SUFFIX: Final = ".run"


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One cluster of one run: its name, the Docker that has it (``DOCKER_HOST``; "" for the usual one), and the run's process."""

    cluster: str
    docker_host: str = ""
    pid: int = 0
    """For people: the lock decides whether the run lives."""
    checkout: str = ""
    """The root of the checkout that made it; "" in records of versions that did not write it."""

    def is_swept_by(self, checkout: str) -> bool:
        """May this checkout remove what a killed run left? Its own, and what no checkout is left for."""
        return self.checkout in ("", checkout) or not Path(self.checkout).is_dir()


@contextlib.contextmanager
def record(folder: Path, run: RunRecord) -> Iterator[None]:
    """While inside, the cluster is known to be in use. Left with an error, the record stays for the next sweep."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{run.cluster}{_SUFFIX}"
    partial = path.with_suffix(".part")
    # Locked before another process can see it under its name.
    descriptor = os.open(partial, os.O_CREAT | os.O_RDWR | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(descriptor, json.dumps(asdict(run)).encode())
        partial.rename(path)
        yield
        path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def abandoned(folder: Path, wanted: Callable[[RunRecord], bool]) -> Iterator[list[tuple[Path, RunRecord]]]:
    """The wanted runs that are gone, with their files; no other process gets these while inside."""
    with contextlib.ExitStack() as stack:
        paths = sorted(folder.glob(f"*{_SUFFIX}"))
        found = [(path, run) for path in paths if (run := _taken_over(path, stack)) is not None]
        yield [(path, run) for path, run in found if wanted(run)]


def _taken_over(path: Path, stack: contextlib.ExitStack) -> RunRecord | None:
    """The run in a file without a lock; it is locked by us from now on. None for a live run's, or one just removed."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    stack.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another process may have swept it between opening and locking.
        return RunRecord(**json.loads(path.read_text()))
    except (BlockingIOError, FileNotFoundError):
        return None
    except (ValueError, TypeError):
        # No run of ours wrote it: its files are whole before they have this name.
        return None
