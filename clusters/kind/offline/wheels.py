"""Wheels for a base, fetched on this machine by pip and kept in the cache: what the build may not fetch itself."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TextIO

from clusters.kind.offline.debian import COMMAND
from clusters.processes.commands import BUILDING, Progress, watch
from clusters.provider import ClusterError

# The newest C library that a wheel may ask for: that of Debian 12. Which one a base has is tried when its image is built.
_NEWEST_GLIBC_MINOR: Final = 36
_OLDEST_GLIBC_MINOR: Final = 5


def platforms(machine: str) -> list[str]:
    """The platforms with wheels that run on a glibc base, as wheels name them (PEP 600 and the three names before it)."""
    numbered = [f"manylinux_2_{minor}_{machine}" for minor in range(_NEWEST_GLIBC_MINOR, _OLDEST_GLIBC_MINOR - 1, -1)]
    return [*numbered, *(f"{name}_{machine}" for name in ("manylinux2014", "manylinux2010", "manylinux1"))]


def ensure(checkout: Path, python: str, cache: Path, environment: Mapping[str, str], out: TextIO) -> Path:
    """The folder of the dependencies' wheels, and pip's, for that Python. Raises ClusterError with pip's error."""
    # The product's dependencies, and pip among the tools that build; each file with its hash.
    wanted = [checkout / ".ci" / "constraints" / f"{name}.txt" for name in ("product", "build")]
    content = "\0".join([*(path.read_text() for path in wanted), python, platform.machine()])
    folder = cache / f"wheels-{hashlib.sha256(content.encode()).hexdigest()[:12]}"
    if folder.is_dir():
        return folder
    with (
        tempfile.TemporaryDirectory(prefix=BUILDING, dir=cache) as building,
        Progress(COMMAND, f"fetching wheels for Python {python}", out, "once") as progress,
    ):
        made = Path(building) / "made"
        abi = f"cp{python.replace('.', '')}"
        argv = [
            "--only-binary=:all:",
            "--implementation=cp",
            f"--python-version={python}",
            f"--abi={abi}",
            "--abi=abi3",
        ]
        argv += [f"--platform={name}" for name in platforms(platform.machine())]
        argv += ["--abi=none", "--require-hashes", *(f"--requirement={path}" for path in wanted)]
        _pip(["download", *argv, f"--dest={made}"], environment, progress)
        made.rename(folder)
        progress.line(f"fetched {len(list(folder.iterdir()))} wheels")
    return folder


def build_own(checkout: Path, folder: Path, environment: Mapping[str, str], progress: Progress) -> None:
    """The wheels of a checkout, into a folder; built by the backend that `make` installed. Raises ClusterError."""
    argv = ["wheel", "--no-deps", "--no-build-isolation", f"--wheel-dir={folder}"]
    _pip([*argv, str(checkout), str(checkout / "fake_nvml")], environment, progress)


def _pip(arguments: list[str], environment: Mapping[str, str], progress: Progress) -> None:
    try:
        importlib.metadata.version("pip")
    except importlib.metadata.PackageNotFoundError as error:
        raise ClusterError(
            f"{sys.executable} has no pip, which fetches wheels; run it from the checkout's .venv"
        ) from error
    watch([sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments], environment, progress)
