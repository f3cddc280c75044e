"""Ask a Docker, through its own command."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

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
