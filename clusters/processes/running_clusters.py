"""Which clusters of this user are up: one small file for each, so that ``down`` can end what a closed terminal left behind.

A record names the process by pid, start time and boot, and the checkout that it belongs to. ``down`` ends the clusters of its own
checkout; ``--all`` ends those of other checkouts too. A pid that belongs to another process by now is never signalled.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

CHECKOUT: Final = str(Path(__file__).resolve().parents[2])
# How long a cluster may take to end, in seconds.
_END_SECONDS: Final = 30.0
# A record is a path of up to 4096 bytes and a few words; whatever is longer is none.
_LONGEST: Final = 20_000
# The kernel's PID_MAX_LIMIT.
_LARGEST_PID: Final = 4_194_304
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster that is up."""

    pid: int
    started: str
    """When its process started, as the kernel counts it since the boot."""
    boot: str
    checkout: str
    """The root of the checkout whose ``python -m clusters`` started it."""


@contextlib.contextmanager
def record(checkout: str = CHECKOUT) -> Iterator[None]:
    """While inside, this process is known as a running cluster of that checkout."""
    pid = os.getpid()
    path = _folder() / str(pid)
    whole = json.dumps(asdict(Cluster(pid, started_at(pid) or "", boot_id(), checkout)))
    # The name appears when the file is whole; a reader skips the other one.
    partial = path.with_suffix(".part")
    partial.write_text(whole)
    partial.rename(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def end_all(say: Callable[[str], None], *, everywhere: bool = False, checkout: str = CHECKOUT) -> int:
    """End this checkout's clusters with SIGTERM, or those of every checkout; exit code 0 if none of them is left."""
    ended = left = elsewhere = 0
    for path in sorted(_folder().iterdir()):
        cluster = _read(path, say)
        if cluster is None:
            continue
        if not everywhere and cluster.checkout != checkout:
            elsewhere += _is_up(cluster)
            continue
        if not _end(cluster, say):
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
    """The folder is of this user alone: another user's file in a shared folder must not name a process for us to end."""
    folder = Path(tempfile.gettempdir()) / f"gpushare-clusters-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} is not this user's; remove it")
    return folder


def _read(path: Path, say: Callable[[str], None]) -> Cluster | None:
    """The cluster of a file; None for a file that is no record of ours, which stays and gets a line."""
    try:
        if path.lstat().st_uid != os.getuid() or not path.is_file() or path.is_symlink():
            raise ValueError("it is not a file of this user")
        with path.open() as file:
            cluster = Cluster(**json.loads(file.read(_LONGEST)))
        kinds = [type(getattr(cluster, name)) for name in Cluster.__slots__]
        if kinds != [int, str, str, str] or path.name != str(cluster.pid) or not 1 < cluster.pid <= _LARGEST_PID:
            raise ValueError("it names no process")
    except FileNotFoundError:
        # Its cluster has ended since the folder was listed.
        return None
    except (OSError, ValueError, TypeError, RecursionError) as error:
        say(f"skipping {path}, which is no record of a cluster ({error}); remove it if nothing needs it")
        return None
    return cluster


def _end(cluster: Cluster, say: Callable[[str], None]) -> bool:
    """End it and wait until it has ended; True also if it had ended before."""
    if not _is_up(cluster):
        return True
    try:
        process = os.pidfd_open(cluster.pid)
    except ProcessLookupError:
        return True
    try:
        # From here on the descriptor means this one process, whatever becomes of the number.
        if not _is_up(cluster):
            return True
        say(f"ending the cluster of process {cluster.pid}, of {cluster.checkout}")
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGTERM)
        if not select.select([process], [], [], _END_SECONDS)[0]:
            say(f"process {cluster.pid} did not end in {_END_SECONDS:.0f} s")
            return False
    finally:
        os.close(process)
    return True


def _is_up(cluster: Cluster) -> bool:
    """Is the process still the one that was recorded? After a restart of the machine, numbers and times begin again."""
    return bool(cluster.started) and cluster.boot == boot_id() and started_at(cluster.pid) == cluster.started


def boot_id() -> str:
    """Which start of the machine this is; "" on a system that does not say so, on which no record is ever acted on."""
    return _BOOT.read_text().strip() if _BOOT.exists() else ""


def started_at(pid: int) -> str | None:
    """When a process started, as the kernel counts it, or None if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command in parentheses may hold blanks; the 20th field after it is the start time.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]
