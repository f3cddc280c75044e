"""Where a private dockerd lives: its folders, its socket, its bridge."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from clusters.controlplane.binaries import cache_folder

RUN: Final = Path("/run/gpushare-docker")
# The bridges of our making, 15 characters at most: Docker's default one, and the one of the nodes.
DEFAULT_BRIDGE: Final = "gpushare0"
NODES_BRIDGE: Final = "gpushare-kind"
# Docker's name of the network of the nodes.
NETWORK: Final = "gpushare-kind"


@dataclass(frozen=True, slots=True)
class Place:
    """The files of one private dockerd. ``run`` lives as long as it does, ``data`` is a cache of images."""

    run: Path
    data: Path

    @property
    def socket(self) -> Path:
        """Where it answers."""
        return self.run / "docker.sock"

    @property
    def address(self) -> str:
        """As DOCKER_HOST has it."""
        return f"unix://{self.socket}"

    @property
    def exec_root(self) -> Path:
        """Its records of running containers; those of its containerd, too."""
        return self.run / "exec"

    @property
    def pid_file(self) -> Path:
        """Its pid, while it runs or when it was killed."""
        return self.run / "docker.pid"

    @property
    def log(self) -> Path:
        """Its log, which has the reason of its end: beside the images, for it is read when dockerd is gone."""
        return self.data.with_suffix(".log")

    @property
    def cgroup(self) -> str:
        """All its containers are below this cgroup, so that they can be found again."""
        return self.run.name.removesuffix("-docker")

    @property
    def daemon_cgroup(self) -> str:
        """It and all that it starts outside of containers are in this cgroup."""
        return f"{self.cgroup}-engine"

    @property
    def uses(self) -> Path:
        """Where checkouts and runs say that they use it; beside its folders, for these go when it ends."""
        if os.geteuid() == 0:
            return self.run.with_name(f"{self.run.name}-uses")
        # Another user's Docker, and no right to write beside it.
        return Path(tempfile.gettempdir()) / f"gpushare-docker-uses-{os.geteuid()}"

    @property
    def before(self) -> Path:
        """The host's settings from before it started."""
        return self.run / "before.json"


def place_of(environment: Mapping[str, str], run: Path = RUN) -> Place:
    """The private dockerd of this user: images in the cache (GPUSHARE_CACHE moves it), the rest under ``run``."""
    return Place(run, cache_folder(environment).parent / "docker")
