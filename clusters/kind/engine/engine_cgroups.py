"""Control groups of ours: the kernel lists in them each process that our dockerd started, and no other."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

_MOUNTED: Final = Path("/sys/fs/cgroup")
# Version 1 of cgroups; a node's host has it in any case.
_CONTROLLER: Final = "pids"


def make(name: str, version: int, mounted: Path = _MOUNTED) -> Path:
    """Make a group, if there is none; the file that takes the pid of a process that joins it."""
    folder = mounted / (name if version == 2 else f"{_CONTROLLER}/{name}")
    folder.mkdir(exist_ok=True)
    return folder / "cgroup.procs"


def folders(name: str, mounted: Path = _MOUNTED) -> list[Path]:
    """The group of this name in each hierarchy, and all groups below it."""
    unified = (mounted / "cgroup.controllers").exists()
    # In version 1 a hierarchy may have a second name, a link.
    parents = [mounted] if unified else [path for path in mounted.glob("*") if not path.is_symlink()]
    tops = [top for parent in parents if (top := parent / name).is_dir()]
    return [folder for top in tops for folder in (top, *(path for path in top.rglob("*") if path.is_dir()))]


def members(name: str, mounted: Path = _MOUNTED) -> set[int]:
    """The pids in these groups that this process may see; the kernel writes 0 for those of another pid namespace."""
    found: set[int] = set()
    for folder in folders(name, mounted):
        with contextlib.suppress(OSError):
            found.update(int(line) for line in (folder / "cgroup.procs").read_text().split())
    return found - {0}


def remove(name: str, mounted: Path = _MOUNTED) -> None:
    """Remove the groups in which no process is left."""
    for folder in sorted(folders(name, mounted), key=lambda path: len(path.parts), reverse=True):
        with contextlib.suppress(OSError):
            folder.rmdir()
