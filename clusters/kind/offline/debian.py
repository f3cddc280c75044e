"""A Debian of this machine's own release, from the mirror that its apt uses; without an image registry, images begin with it."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from clusters.processes.commands import run, watch
from clusters.processes.progress import Progress
from clusters.provider import ClusterError

_INSTEAD: Final = "or use published images (--node-image, --image-base)"
# The engine makes its own devices; the other folders are filled when a container runs.
LEFT_OUT: Final = ("dev", "proc", "sys", "run", "tmp")


def host_suite() -> str:
    """The release of Debian (or of a relative) that this machine is. Raises ClusterError."""
    try:
        return platform.freedesktop_os_release()["VERSION_CODENAME"]
    except (OSError, KeyError) as error:
        raise ClusterError(
            f"this machine names no release of Debian, and images are built on Debian; {_INSTEAD}"
        ) from error


def mirror(suite: str, environment: Mapping[str, str]) -> str:
    """The URL from which apt has packages of that release, component main. Raises ClusterError."""
    what = ["--format", "$(RELEASE) $(COMPONENT) $(REPO_URI)", "Created-By: Packages"]
    for line in run(["apt-get", "indextargets", *what], environment).splitlines():
        release, component, url = line.split(maxsplit=2)
        if (release, component) == (suite, "main"):
            return url
    raise ClusterError(f"no source of apt has main of {suite}: name one in /etc/apt, {_INSTEAD}")


def debootstrap(root: Path, packages: Sequence[str], environment: Mapping[str, str], progress: Progress) -> None:
    """Make a small Debian with these packages in a folder. Needs root. Raises ClusterError."""
    if os.geteuid() != 0:
        raise ClusterError(f"making a Debian needs root (chroot): run as root, {_INSTEAD}")
    if shutil.which("debootstrap", path=environment.get("PATH")) is None:
        progress.detail = "installing debootstrap by apt"
        quiet = {**environment, "DEBIAN_FRONTEND": "noninteractive"}
        run(["apt-get", "install", "--yes", "--no-install-recommends", "debootstrap"], quiet)
    suite = host_suite()
    # Mounts of its own, and processes of its own: both are gone with it, however it ends.
    own = ["unshare", "--mount", "--propagation=private", "--fork", "--pid", "--kill-child"]
    argv = ["debootstrap", "--variant=minbase", f"--include={','.join(packages)}", suite]
    watch([*own, *argv, root, mirror(suite, environment)], environment, progress)
