"""What a dockerd that ended, or was killed, leaves behind: processes, cgroups, mounts, bridges, rules."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from clusters.kind.engine import egress, iptables, processes, settings
from clusters.kind.engine.links import remove_link
from clusters.kind.engine.place import DEFAULT_BRIDGE, NODES_BRIDGE, Place

_CGROUPS: Final = Path("/sys/fs/cgroup")


def end_containers(place: Place) -> None:
    """Kill what a killed dockerd left running: its containerd, the shims, which ask nobody, and what ran in its containers.

    What it kept of them in its run folder goes, too, as on a machine that starts: a containerd that finds it there looks for
    each dead shim for a long time.
    """
    processes.kill(processes.with_argument_under(place.exec_root))
    processes.kill({pid for folder in _cgroup_folders(place) for pid in _members(folder)})
    _unmount(place.exec_root)
    shutil.rmtree(place.exec_root, ignore_errors=True)


def remove(place: Place, environment: Mapping[str, str]) -> None:
    """Remove every trace but the images. Raises EngineError where the packet filter cannot be read."""
    end_containers(place)
    for folder in sorted(_cgroup_folders(place), key=lambda path: len(path.parts), reverse=True):
        with contextlib.suppress(OSError):
            folder.rmdir()
    _unmount(place.run, place.data)
    bridges = [DEFAULT_BRIDGE, NODES_BRIDGE]
    for bridge in bridges:
        remove_link(bridge)
    egress.remove(environment)
    iptables.remove(bridges, environment, docker_too=not settings.had_docker(place.before))
    settings.put_back(place.before, environment)
    shutil.rmtree(place.run, ignore_errors=True)


def _unmount(*folders: Path) -> None:
    for point in mount_points(Path("/proc/self/mountinfo").read_text(), folders):
        # Lazily: what still holds it lets go when it ends.
        subprocess.run(["umount", "-l", point], capture_output=True, check=False)


def mount_points(mountinfo: str, folders: Iterable[Path]) -> list[str]:
    """What is mounted at or below these folders, the deepest first, out of the text of ``/proc/self/mountinfo``."""
    tops = [str(folder) for folder in folders]
    points = [line.split()[4].replace("\\040", " ") for line in mountinfo.splitlines()]
    found = [point for point in points if any(point == top or point.startswith(f"{top}/") for top in tops)]
    return sorted(found, key=len, reverse=True)


def _cgroup_folders(place: Place) -> list[Path]:
    """Our cgroup in each controller, and all below it."""
    tops = [top for pattern in (place.cgroup, f"*/{place.cgroup}") for top in _CGROUPS.glob(pattern)]
    return [folder for top in tops for folder in (top, *(path for path in top.rglob("*") if path.is_dir()))]


def _members(folder: Path) -> list[int]:
    try:
        return [int(line) for line in (folder / "cgroup.procs").read_text().split()]
    except OSError:
        return []
