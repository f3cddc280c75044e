"""This host's facilities for containers, and those that it lacks, one line each."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from clusters.kind.engine.docker_client import program

# Bits of the capabilities that dockerd and a node need: linux/capability.h.
_NET_ADMIN: Final = 12
_SYS_ADMIN: Final = 21
_SYS_RESOURCE: Final = 24
# With cgroup v1; with v2 the list of the root's controllers.
_CONTROLLERS: Final = frozenset({"cpu", "cpuset", "memory", "pids"})
_V1_CONTROLLERS: Final = _CONTROLLERS | {"devices", "freezer"}
# A control plane, two nodes and what they run; measured on kind.
_MEMORY_MIB: Final = 3072
_DISK_MIB: Final = 6144

# Program → Debian's package.
_PACKAGES: Final = (
    ("dockerd", "docker.io"),
    ("containerd", "containerd"),
    ("runc", "runc"),
    ("iptables", "iptables"),
    ("ip", "iproute2"),
)


@dataclass(frozen=True, slots=True)
class Host:
    """The facts that decide whether a private dockerd with kind's nodes can run here."""

    root: bool
    bounding: int
    """The capabilities that a process here can ever have, as a mask."""
    overlay: bool
    cgroup: int
    """1, 2 (unified), or 0 where none is mounted."""
    controllers: frozenset[str]
    programs: frozenset[str]
    """Of dockerd, containerd, runc, iptables, ip, apt-get: those that are there."""
    memory_mib: int
    """What is available now."""
    disk_mib: int
    """Free where images are kept."""

    @property
    def lacks_sys_resource(self) -> bool:
        """Then runc cannot start what Docker calls privileged, and a runtime stands in front of it."""
        return not self.bounding >> _SYS_RESOURCE & 1

    @property
    def lacks_programs(self) -> bool:
        """Is a program missing that dockerd is or needs?"""
        return not self.programs.issuperset(name for name, _ in _PACKAGES)


def look(data: Path, environment: Mapping[str, str], root: Path = Path("/")) -> Host:
    """Look at this host; ``data`` is the folder for images, ``root`` the one with its ``proc`` and ``sys``."""
    names = [*(name for name, _ in _PACKAGES), "apt-get"]
    cgroup, controllers = _cgroups(root)
    return Host(
        root=os.geteuid() == 0,
        bounding=_bounding(root),
        overlay="overlay" in (root / "proc/filesystems").read_text().split(),
        cgroup=cgroup,
        controllers=controllers,
        programs=frozenset(name for name in names if program(name, environment) is not None),
        memory_mib=_memory_mib(root),
        disk_mib=_disk_mib(data),
    )


def missing(host: Host) -> list[str]:
    """The things that a private dockerd with nodes needs and that are missing: one line each, with what to do. Empty: none."""
    if not host.root:
        return ["not root: start a Docker that you may use, or call this as root"]
    needed = _V1_CONTROLLERS if host.cgroup == 1 else _CONTROLLERS
    absent = {
        f"capability {name} is not in the bounding set: run this machine or container with it": not host.bounding >> bit
        & 1
        for name, bit in (("CAP_SYS_ADMIN", _SYS_ADMIN), ("CAP_NET_ADMIN", _NET_ADMIN))
    }
    absent |= {
        f"program {name} is missing: apt-get install {package}": not _can_have(host, name)
        for name, package in _PACKAGES
    }
    absent["no cgroups: mount them below /sys/fs/cgroup"] = host.cgroup == 0
    lacking = ", ".join(sorted(needed - host.controllers))
    absent[f"cgroup v{host.cgroup} lacks {lacking}: enable these controllers"] = bool(host.cgroup and lacking)
    absent[f"{host.memory_mib} MiB of memory are available, {_MEMORY_MIB} are needed: end something"] = (
        host.memory_mib < _MEMORY_MIB
    )
    absent[
        f"{host.disk_mib} MiB of disk are free, {_DISK_MIB} are needed: remove something, or move GPUSHARE_CACHE"
    ] = host.disk_mib < _DISK_MIB
    return [line for line, is_absent in absent.items() if is_absent]


def _can_have(host: Host, name: str) -> bool:
    """There, or installed when it is needed."""
    return name in host.programs or "apt-get" in host.programs


def _bounding(root: Path) -> int:
    for line in (root / "proc/self/status").read_text().splitlines():
        if line.startswith("CapBnd:"):
            return int(line.split()[1], 16)
    return 0


def _cgroups(root: Path) -> tuple[int, frozenset[str]]:
    mounted = root / "sys/fs/cgroup"
    unified = mounted / "cgroup.controllers"
    if unified.exists():
        return 2, frozenset(unified.read_text().split())
    # Two controllers may share a folder, with links of their names.
    folders = frozenset(path.name for path in mounted.iterdir()) if mounted.is_dir() else frozenset()
    return (1 if folders & _V1_CONTROLLERS else 0), folders & _V1_CONTROLLERS


def _memory_mib(root: Path) -> int:
    for line in (root / "proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) // 1024
    return 0


def _disk_mib(data: Path) -> int:
    there = next(path for path in (data, *data.parents) if path.exists())
    return shutil.disk_usage(there).free >> 20
