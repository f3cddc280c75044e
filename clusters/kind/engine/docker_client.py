"""Ask a Docker through its own command; the folders of a private dockerd."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from clusters.controlplane.binaries import cache_folder
from clusters.provider import ClusterError

# A Docker that is busy may take a while; one that hangs must not make us hang.
_ANSWER_SECONDS: Final = 60
# Where distributions put what only root uses; a user's PATH often lacks it.
_SYSTEM_FOLDERS: Final = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def with_system_path(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment, with the folders of iptables and dockerd on its PATH."""
    folders = environment.get("PATH", "").split(os.pathsep)
    return {**environment, "PATH": os.pathsep.join([*folders, *(one for one in _SYSTEM_FOLDERS if one not in folders)])}


def program(name: str, environment: Mapping[str, str]) -> Path | None:
    """Where a program is, system folders included, or None."""
    found = shutil.which(name, path=with_system_path(environment)["PATH"])
    return Path(found) if found is not None else None


def docker(arguments: list[str], environment: Mapping[str, str], seconds: float = _ANSWER_SECONDS) -> str:
    """The output of `docker`. Raises ClusterError with its error if it failed, or if it took longer than this."""
    command = program("docker", environment)
    if command is None:
        raise ClusterError("there is no `docker` on PATH; install Docker's command (Debian: docker.io)")
    try:
        done = subprocess.run(
            [command, *arguments],
            env=dict(environment),
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"`docker {arguments[0]}` did not end in {seconds:.0f} s; is dockerd stuck?") from error
    if done.returncode != 0:
        raise ClusterError(f"`docker {' '.join(arguments)}` ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def has_images(names: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Has the Docker that answers there all these images?"""
    try:
        return bool(docker(["image", "inspect", "--format", "{{.Id}}", *names], environment))
    except ClusterError:
        return False


def server_version(environment: Mapping[str, str]) -> str | None:
    """The version of the Docker that answers there, or None if none does."""
    try:
        return docker(["version", "--format", "{{.Server.Version}}"], environment).strip() or None
    except ClusterError:
        return None


RUN: Final = Path("/run/gpushare-docker")
# The bridges of our making, 15 characters at most: Docker's default one, and the one of the nodes.
DEFAULT_BRIDGE: Final = "gpushare0"
NODES_BRIDGE: Final = "gpushare-kind"
# Docker's name of the network of the nodes.
NETWORK: Final = "gpushare-kind"


class Place:
    """The files of one private dockerd. ``run`` lives as long as it does, ``data`` is a cache of images."""

    def __init__(self, run: Path, data: Path) -> None:
        self.run = run
        self.data = data
        self.socket = run / "docker.sock"
        # As DOCKER_HOST has it.
        self.address = f"unix://{self.socket}"
        # Its records of running containers; those of its containerd, too.
        self.exec_root = run / "exec"
        # Its pid, while it runs or when it was killed.
        self.pid_file = run / "docker.pid"
        # Its log, which has the reason of its end: beside the images, for it is read when dockerd is gone.
        self.log = data.with_suffix(".log")
        # All its containers are below this cgroup, so that they can be found again.
        self.cgroup = run.name.removesuffix("-docker")
        # It and all that it starts outside of containers are in this cgroup.
        self.daemon_cgroup = f"{self.cgroup}-engine"
        # The host's settings from before it started.
        self.before = run / "before.json"
        # Where runs say that they use it; beside its folders, for these go when it ends.
        self.uses = run.with_name(f"{run.name}-uses")
        if os.geteuid() != 0:
            # Another user's Docker, and no right to write beside it.
            self.uses = Path(tempfile.gettempdir()) / f"gpushare-docker-uses-{os.geteuid()}"


def place_of(environment: Mapping[str, str], run: Path = RUN) -> Place:
    """The private dockerd of this user: images in the cache (GPUSHARE_CACHE moves it), the rest under ``run``."""
    return Place(run, cache_folder(environment).parent / "docker")
