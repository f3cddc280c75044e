"""Install Docker's programs from the distribution, and nothing that starts on its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TextIO

from clusters.kind.engine.docker_client import program
from clusters.processes.commands import watch
from clusters.processes.progress import Progress
from clusters.provider import ClusterError

# Debian's names; each brings what it needs.
PACKAGES: Final = ("docker.io", "containerd", "runc", "iptables", "iproute2")
# Debian asks this program whether a package may start its service.
_POLICY: Final = Path("/usr/sbin/policy-rc.d")


def install(environment: Mapping[str, str], out: TextIO, policy: Path = _POLICY) -> None:
    """Install the packages that dockerd needs with apt-get; needs root. Raises ClusterError with the end of its output."""
    apt = program("apt-get", environment)
    if apt is None:
        raise ClusterError("there is no `dockerd` and no apt-get to install it with; install Docker")
    quiet = {**environment, "DEBIAN_FRONTEND": "noninteractive"}
    with Progress("docker", f"installing {', '.join(PACKAGES)}", out, "once") as progress, _nothing_starts(policy):
        watch([apt, "update"], quiet, progress)
        get: list[str | Path] = [apt, "install", "--yes", "--no-install-recommends"]
        watch([*get, *PACKAGES], quiet, progress)
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
