"""Which clusters of this user are up, so that ``down`` can end what a closed terminal left behind.

A record names the process and the checkout that it belongs to. ``down`` ends the clusters of its own checkout; ``--all`` ends
those of other checkouts too. A pid that belongs to another process by now is never signalled: its record has no lock.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Final

import msgspec

from clusters.processes import locked_records

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
    with locked_records.record(_folder() / str(os.getpid()), Cluster(os.getpid(), checkout)):
        yield


def end_all(say: Callable[[str], None], *, everywhere: bool = False, checkout: str = CHECKOUT) -> int:
    """End this checkout's clusters with SIGTERM, or those of every checkout; exit code 0 if none of them is left."""
    ended = left = elsewhere = 0
    for path in sorted(_folder().iterdir()):
        cluster = _read(path, say)
        if cluster is None:
            continue
        if not everywhere and cluster.checkout != checkout:
            elsewhere += locked_records.is_live(path)
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
    return locked_records.make_own_folder(Path(tempfile.gettempdir()) / f"gpushare-clusters-{os.getuid()}")


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
    if not locked_records.is_live(path):
        return True
    say(f"ending the cluster of process {cluster.pid}, of {cluster.checkout}")
    if locked_records.signalled(cluster.pid, signal.SIGTERM, lambda: locked_records.is_live(path), _END_SECONDS):
        return True
    say(f"process {cluster.pid} did not end in {_END_SECONDS:.0f} s")
    return False
