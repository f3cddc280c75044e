"""The traces of a private dockerd, and their removal: processes and control groups, mounts, bridges, rules, the host's settings.

The kernel lists in two control groups of ours each process that our dockerd started, and no other. A process is ended by its pid,
and only while it is what was started. Settings that dockerd changes are recorded before, and put back afterwards.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from clusters.kind.engine import egress
from clusters.kind.engine.docker_client import DEFAULT_BRIDGE, NODES_BRIDGE, Place
from clusters.kind.engine.network import remove_link
from clusters.processes.running_clusters import signalled

_LOOK_SECONDS: Final = 0.1
# The kernel may still write what a killed process had open.
_KILL_SECONDS: Final = 10.0
_PROC: Final = Path("/proc")
_MOUNTED: Final = Path("/sys/fs/cgroup")
# Version 1 of cgroups; a node's host has it in any case.
_CONTROLLER: Final = "pids"
_FORWARDING: Final = "proc/sys/net/ipv4/ip_forward"
_INSTANCES: Final = "proc/sys/fs/inotify/max_user_instances"
# Each node's systemd, kubelet and containerd watch files; three nodes spend the kernel's default of 128.
_WANTED_INSTANCES: Final = 512
# Made by dockerd and containerd wherever their own folders are. The content of a folder comes first, so that the folder is empty
# when it is removed.
_MADE: Final = (
    "etc/docker/key.json",
    "etc/docker",
    "run/docker/plugins",
    "run/docker",
    "run/containerd/s",
    "run/containerd",
)


def end_containers(place: Place) -> None:
    """Kill what a killed dockerd left running: its containerd, the shims, and what ran in its containers.

    The records of them in its run folder go too, as on a machine that starts: a containerd that finds it there looks for each dead
    shim for a long time.
    """
    for group in (place.daemon_cgroup, place.cgroup):
        kill_all(partial(members, group))
    _unmount(place.exec_root)
    shutil.rmtree(place.exec_root, ignore_errors=True)


def remove(place: Place, environment: Mapping[str, str]) -> None:
    """Remove every trace but the images, and nothing that is another's. Raises ClusterError if the packet filter cannot be read."""
    end_containers(place)
    for group in (place.daemon_cgroup, place.cgroup):
        for folder in sorted(_groups(group, _MOUNTED), key=lambda path: len(path.parts), reverse=True):
            with contextlib.suppress(OSError):  # a process is left in it
                folder.rmdir()
    _unmount(place.run, place.data)
    for bridge in (DEFAULT_BRIDGE, NODES_BRIDGE):
        remove_link(bridge)
    egress.remove(environment)
    # Our dockerd has ended: one that runs is another's, and needs the settings.
    put_back(place.before, needed=bool(in_this_network("dockerd")))
    shutil.rmtree(place.run, ignore_errors=True)


def _unmount(*folders: Path) -> None:
    for point in mount_points(Path("/proc/self/mountinfo").read_text(), folders):
        # Lazily: what still holds it lets go when it ends.
        subprocess.run(["umount", "-l", point], capture_output=True, check=False)


def mount_points(mountinfo: str, folders: Iterable[Path]) -> list[str]:
    """The mounts at or below these folders, the deepest first, out of the text of ``/proc/self/mountinfo``."""
    tops = [str(folder) for folder in folders]
    points = [line.split()[4].replace("\\040", " ") for line in mountinfo.splitlines()]
    found = [point for point in points if any(point == top or point.startswith(f"{top}/") for top in tops)]
    return sorted(found, key=len, reverse=True)


def make_group(name: str, version: int) -> Path:
    """Make a control group, if there is none; the file that takes the pid of a process that joins it."""
    folder = _MOUNTED / (name if version == 2 else f"{_CONTROLLER}/{name}")
    folder.mkdir(exist_ok=True)
    return folder / "cgroup.procs"


def members(name: str, mounted: Path = _MOUNTED) -> set[int]:
    """The pids in these groups that this process may see; the kernel writes 0 for those of another pid namespace."""
    found: set[int] = set()
    for folder in _groups(name, mounted):
        with contextlib.suppress(OSError):
            found.update(int(line) for line in (folder / "cgroup.procs").read_text().split())
    return found - {0}


def _groups(name: str, mounted: Path) -> list[Path]:
    """The group of this name in each hierarchy, and all groups below it."""
    unified = (mounted / "cgroup.controllers").exists()
    # In version 1 a hierarchy may have a second name, a link.
    parents = [mounted] if unified else [path for path in mounted.glob("*") if not path.is_symlink()]
    tops = [top for parent in parents if (top := parent / name).is_dir()]
    return [folder for top in tops for folder in (top, *(path for path in top.rglob("*") if path.is_dir()))]


def prepare(file: Path, root: Path = Path("/")) -> None:
    """Record the settings unless that was done, and raise the limit of inotify instances. dockerd itself switches forwarding on."""
    if not file.exists():
        before = {
            "settings": {name: (root / name).read_text().strip() for name in (_FORWARDING, _INSTANCES)},
            "absent": [name for name in _MADE if not (root / name).exists()],
        }
        file.write_text(json.dumps(before))
    if int((root / _INSTANCES).read_text()) < _WANTED_INSTANCES:
        # Where the host's settings are not ours to change a few nodes still run.
        with contextlib.suppress(OSError):
            (root / _INSTANCES).write_text(str(_WANTED_INSTANCES))


def put_back(file: Path, root: Path = Path("/"), *, needed: bool = False) -> None:
    """Set the host's settings to their former values; a setting that a user changed in between to another value stays.

    ``needed``: another Docker has come, which needs them; then they stay as they are.
    """
    before: dict[str, Any] = {}
    if not needed:
        with contextlib.suppress(FileNotFoundError, ValueError):
            before = json.loads(file.read_text())
    ours = {_FORWARDING: "1", _INSTANCES: str(_WANTED_INSTANCES)}
    for name, value in before.get("settings", {}).items():
        if (root / name).read_text().strip() == ours[name] != value:
            with contextlib.suppress(OSError):
                (root / name).write_text(value)
    for name in before.get("absent", []):
        # A folder that is no longer empty belongs to another program.
        with contextlib.suppress(OSError):
            (root / name).rmdir() if (root / name).is_dir() else (root / name).unlink(missing_ok=True)
    file.unlink(missing_ok=True)


def is_running(pid: int, program: str, argument: str) -> bool:
    """Is this pid a process of this program, which the kernel names, with exactly this argument?"""
    try:
        arguments = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return _program(pid) == program and os.fsencode(argument) in arguments


def in_this_network(program: str) -> list[int]:
    """The pids of the processes of this program that share the network of this process."""
    here = str((_PROC / "self/ns/net").readlink())
    pids = sorted(int(path.name) for path in _PROC.iterdir() if path.name.isdigit())
    return [pid for pid in pids if _program(pid) == program and _link(pid, "ns/net") == here]


def end(pid: int, is_ours: Callable[[], bool], seconds: float) -> None:
    """Ask a process to end, and kill it if it has not after this time."""
    if not signalled(pid, signal.SIGTERM, is_ours, seconds):
        signalled(pid, signal.SIGKILL, is_ours, _KILL_SECONDS)


def kill_all(members: Callable[[], set[int]]) -> None:
    """Kill the members of a group until there are none; each is still a member when it is signalled."""
    deadline = time.monotonic() + _KILL_SECONDS
    while (pids := members()) and time.monotonic() < deadline:
        for pid in pids:
            _kill_member(pid, members)
        time.sleep(_LOOK_SECONDS)


def _kill_member(pid: int, members: Callable[[], set[int]]) -> None:
    signalled(pid, signal.SIGKILL, lambda: pid in members(), 0)


def _program(pid: int) -> str:
    """The name of the file that a process runs, "" if it has ended or cannot be seen."""
    return Path(_link(pid, "exe")).name.removesuffix(" (deleted)")


def _link(pid: int, name: str) -> str:
    try:
        return str((_PROC / str(pid) / name).readlink())
    except OSError:
        return ""
