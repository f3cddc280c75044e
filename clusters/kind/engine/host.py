"""This host's facilities for containers; those that it lacks, one line each; the installation of Docker's programs."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

from clusters.kind.engine.docker_client import program
from clusters.processes.commands import Progress, watch
from clusters.provider import ClusterError

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

# Program → Debian's package; each brings what it needs.
PACKAGES: Final = {
    "dockerd": "docker.io",
    "containerd": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "ip": "iproute2",
}
# Debian asks this program whether a package may start its service.
_POLICY: Final = Path("/usr/sbin/policy-rc.d")


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
    """Those of dockerd, containerd, runc, iptables, ip and apt-get that are there."""
    memory_mib: int
    """The memory that is available now."""
    disk_mib: int
    """Free where images are kept."""

    @property
    def lacks_sys_resource(self) -> bool:
        """Then runc cannot start what Docker calls privileged, and a runtime stands in front of it."""
        return not self.bounding >> _SYS_RESOURCE & 1

    @property
    def lacks_programs(self) -> bool:
        """Is a program missing that dockerd is or needs?"""
        return not self.programs.issuperset(PACKAGES)


def look(data: Path, environment: Mapping[str, str], root: Path = Path("/")) -> Host:
    """Look at this host; ``data`` is the folder for images, ``root`` the one with its ``proc`` and ``sys``."""
    names = [*PACKAGES, "apt-get"]
    cgroup, controllers = _cgroups(root)
    return Host(
        root=os.geteuid() == 0,
        bounding=int(_field(root / "proc/self/status", "CapBnd"), 16),
        overlay="overlay" in (root / "proc/filesystems").read_text().split(),
        cgroup=cgroup,
        controllers=controllers,
        programs=frozenset(name for name in names if program(name, environment) is not None),
        memory_mib=int(_field(root / "proc/meminfo", "MemAvailable")) // 1024,
        disk_mib=shutil.disk_usage(next(path for path in (data, *data.parents) if path.exists())).free >> 20,
    )


def missing(host: Host) -> list[str]:
    """The things that a private dockerd with nodes needs and that are missing: one line each, with what to do. Empty: none."""
    if not host.root:
        return ["not root: start a Docker that you may use, or call this as root"]
    capabilities = {"CAP_SYS_ADMIN": _SYS_ADMIN, "CAP_NET_ADMIN": _NET_ADMIN}
    lines = [
        f"capability {name} is not in the bounding set: run this machine or container with it"
        for name, bit in capabilities.items()
        if not host.bounding >> bit & 1
    ]
    if "apt-get" not in host.programs:
        absent = {name: package for name, package in PACKAGES.items() if name not in host.programs}
        lines += [f"program {name} is missing: apt-get install {package}" for name, package in absent.items()]
    needed = _V1_CONTROLLERS if host.cgroup == 1 else _CONTROLLERS
    if host.cgroup == 0:
        lines.append("no cgroups: mount them below /sys/fs/cgroup")
    elif lacking := sorted(needed - host.controllers):
        lines.append(f"cgroup v{host.cgroup} lacks {', '.join(lacking)}: enable these controllers")
    if host.memory_mib < _MEMORY_MIB:
        lines.append(f"{host.memory_mib} MiB of memory are available, {_MEMORY_MIB} are needed: end something")
    if host.disk_mib < _DISK_MIB:
        what = "remove something, or move GPUSHARE_CACHE"
        lines.append(f"{host.disk_mib} MiB of disk are free, {_DISK_MIB} are needed: {what}")
    return lines


def _field(path: Path, name: str) -> str:
    """The first word of a field of a file of the kernel's, "0" if it has no such field."""
    fields = dict(line.split(":", 1) for line in path.read_text().splitlines())
    return next(iter(fields.get(name, "0").split()), "0")


def _cgroups(root: Path) -> tuple[int, frozenset[str]]:
    mounted = root / "sys/fs/cgroup"
    unified = mounted / "cgroup.controllers"
    if unified.exists():
        return 2, frozenset(unified.read_text().split())
    # Two controllers may share a folder, with links of their names.
    folders = frozenset(path.name for path in mounted.iterdir()) if mounted.is_dir() else frozenset()
    return (1 if folders & _V1_CONTROLLERS else 0), folders & _V1_CONTROLLERS


def install(environment: Mapping[str, str], out: TextIO, policy: Path = _POLICY) -> None:
    """Install the packages that dockerd needs with apt-get; needs root. Raises ClusterError with the end of its output."""
    apt = program("apt-get", environment)
    if apt is None:
        raise ClusterError("there is no `dockerd` and no apt-get to install it with; install Docker")
    quiet = {**environment, "DEBIAN_FRONTEND": "noninteractive"}
    with (
        Progress("docker", f"installing {', '.join(PACKAGES.values())}", out, "once") as progress,
        _nothing_starts(policy),
    ):
        watch([apt, "update"], quiet, progress)
        get: list[str | Path] = [apt, "install", "--yes", "--no-install-recommends"]
        watch([*get, *PACKAGES.values()], quiet, progress)
        if program("docker", environment) is None:
            # A package of its own since Debian 13.
            watch([*get, "docker-cli"], quiet, progress)
        progress.line("installed")


@contextlib.contextmanager
def _nothing_starts(policy: Path) -> Iterator[None]:
    """While inside, packages do not start their services: the distribution's own dockerd would stay when we are gone."""
    if policy.exists():
        yield
        return
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink(missing_ok=True)
