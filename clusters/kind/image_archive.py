"""The images of the programs under test as one archive, which every node reads; saved once for the same images."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from clusters.kind.node_container import docker

# Archives of former images that are kept, beside the newest: another checkout may still use them.
_KEPT: Final = 2


async def archive_of(images: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Path:
    """The archive in ``folder``, saved by Docker if it is not there yet. Raises ClusterError for an image that is not there."""
    identities = await docker(environment, "image", "inspect", "--format", "{{.Id}}", *images)
    # With their names: a node knows an image by these.
    key = hashlib.sha256("\n".join([*images, identities]).encode()).hexdigest()[:16]
    path = folder / f"{key}.tar"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        # One at a time; a process that was killed has let go of it.
        await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
        if not path.exists():
            await _save(images, path, environment)
        os.utime(path)
        forget_old(folder, _KEPT)
    return path


async def _save(images: Sequence[str], path: Path, environment: Mapping[str, str]) -> None:
    """A reader sees the whole file or none. A folder of its own: Docker has its own unfinished files, beside what it writes."""
    unfinished = path.parent / ".unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    await docker(environment, "save", "--output", str(unfinished / path.name), *images)
    (unfinished / path.name).rename(path)
    unfinished.rmdir()


def forget_old(folder: Path, kept: int) -> None:
    """Remove what was used longest ago; the newest and ``kept`` more stay."""
    by_age = sorted(folder.glob("*.tar"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in by_age[kept + 1 :]:
        path.unlink(missing_ok=True)
