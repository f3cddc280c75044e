"""Which checkouts and which runs use the Docker, so that ``down`` never ends it under another.

A checkout is registered from its ``up`` to its ``down``. A run has a file of its own, which its process locks: the kernel drops the
lock with the process, however that ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from clusters.processes import running_clusters
from clusters.provider import ClusterError

_CHECKOUT: Final = ".checkout"
_RUN: Final = ".run"


class Use(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One checkout, or one of its runs."""

    checkout: str
    pid: int = 0
    """The pid of the run; 0 for the checkout itself."""
    what: str = ""
    """The work of the run, for people."""

    def __str__(self) -> str:
        """As a message names it."""
        return f"process {self.pid} of {self.checkout} ({self.what})" if self.pid else f"the checkout {self.checkout}"


class Uses:
    """The uses of one Docker; ``folder`` stays when that Docker ends, for its lock must be the same file for all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """One start, end or change of the uses at a time. Raises ClusterError for a folder that another user made."""
        try:
            running_clusters.make_own_folder(self._folder)
        except PermissionError as error:
            raise ClusterError(str(error)) from error
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def register(self, checkout: str) -> None:
        """Know this checkout as a user; within ``locked``."""
        path = self._path_of(checkout)
        partial = path.with_suffix(".part")
        partial.write_bytes(msgspec.json.encode(Use(checkout)))
        partial.rename(path)

    def forget(self, checkout: str) -> None:
        """The checkout no longer uses it; within ``locked``."""
        self._path_of(checkout).unlink(missing_ok=True)

    def forget_checkouts(self) -> None:
        """No checkout uses a Docker that is about to start; within ``locked``."""
        for path in self._folder.glob(f"*{_CHECKOUT}"):
            path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def run(self, checkout: str, what: str) -> Iterator[None]:
        """While inside, this process uses the Docker and ``down`` refuses to end it."""
        path = self._folder / f"{os.getpid()}-{os.urandom(4).hex()}{_RUN}"
        with contextlib.ExitStack() as stack:
            with self.locked():
                stack.enter_context(running_clusters.locked_record(path, Use(checkout, os.getpid(), what)))
            yield

    def all(self) -> list[Use]:
        """Runs with a process that lives, and checkouts that still exist; within ``locked``. Files of others go."""
        runs = [use for path in sorted(self._folder.glob(f"*{_RUN}")) if (use := live(path)) is not None]
        checkouts = [_read(path) for path in sorted(self._folder.glob(f"*{_CHECKOUT}"))]
        return [*runs, *(use for use in checkouts if use is not None and Path(use.checkout).is_dir())]

    def _path_of(self, checkout: str) -> Path:
        return self._folder / f"{hashlib.sha256(os.fsencode(checkout)).hexdigest()[:16]}{_CHECKOUT}"


def others(uses: Sequence[Use], checkout: str) -> list[Use]:
    """The uses of other checkouts; a checkout with a run is named once, by its run."""
    running = {use.checkout for use in uses if use.pid}
    return [use for use in uses if use.checkout != checkout and (use.pid or use.checkout not in running)]


def named(uses: Sequence[Use]) -> str:
    """As a message names them."""
    return ", ".join(map(str, uses))


def live(path: Path) -> Use | None:
    """The run of a file if its process lives; the file of another goes."""
    if running_clusters.is_live(path):
        # A lock that is held shows a run, also if its file cannot be read.
        return _read(path) or Use("a checkout that is not known", -1, path.name)
    path.unlink(missing_ok=True)
    return None


def _read(path: Path) -> Use | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Use)
    except (OSError, msgspec.MsgspecError):
        return None
