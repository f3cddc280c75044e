"""Where a private dockerd lives: its folders, its socket, its bridge."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from clusters.controlplane.binaries import cache_folder

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
