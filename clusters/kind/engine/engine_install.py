"""Install Docker's programs from the distribution, and nothing that starts on its own."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TextIO

from clusters.kind.engine.docker_client import program
from clusters.processes.progress import Progress
from clusters.provider import ClusterError

# Debian's names; each brings what it needs.
PACKAGES: Final = ("docker.io", "containerd", "runc", "iptables", "iproute2")
_TAIL: Final = 15
# Debian asks this program whether a package may start its service.
_POLICY: Final = Path("/usr/sbin/policy-rc.d")


def install(environment: Mapping[str, str], out: TextIO, policy: Path = _POLICY) -> None:
    """Install the packages that dockerd needs with apt-get; needs root. Raises ClusterError with the end of its output."""
    apt = program("apt-get", environment)
    if apt is None:
        raise ClusterError("there is no `dockerd` and no apt-get to install it with; install Docker")
    quiet = {**environment, "DEBIAN_FRONTEND": "noninteractive"}
    with Progress("docker", f"installing {', '.join(PACKAGES)}", out, "once") as progress, _nothing_starts(policy):
        _run([str(apt), "update"], quiet, progress)
        _run([str(apt), "install", "--yes", "--no-install-recommends", *PACKAGES], quiet, progress)
        if program("docker", environment) is None:
            # A package of its own since Debian 13.
            _run([str(apt), "install", "--yes", "--no-install-recommends", "docker-cli"], quiet, progress)
        progress.line("installed")


def _run(argv: list[str], environment: Mapping[str, str], progress: Progress) -> None:
    lines: list[str] = []
    with subprocess.Popen(
        argv,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        for line in process.stdout or ():
            lines.append(line.rstrip())
            progress.detail = lines[-1][:80]
    if process.returncode != 0:
        tail = "\n".join(lines[-_TAIL:])
        raise ClusterError(f"`{' '.join(argv)}` ended with {process.returncode}:\n{tail}")


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
