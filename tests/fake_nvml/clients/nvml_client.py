"""Programs of others that watch cards, put on simulated ones.

Each is installed once, into a folder of the user's cache that is named after its versions, and runs in a process of its
own.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fake_nvml.native.build import cache_folder

ROOT = Path(__file__).parents[3]
# Compiled parts of a client are for one Python.
_PYTHON = f"py{sys.version_info.major}.{sys.version_info.minor}"
# Less than a test may take.
_INSTALL_SECONDS = 300


class NotInstallableError(Exception):
    """The package index, or pip, refused; the text is the last line of its output."""


@dataclass(frozen=True, slots=True)
class Node:
    """Two T4s: the first idle, the second with process ``pid`` on 1253 MiB and a load of 40 percent.

    A card's memory, and the part of it that the driver keeps, are as the driver reports them.
    """

    state: Path
    driver: str
    total_mib: int
    reserved_mib: int
    uuids: tuple[str, ...]
    pid: int

    def ask(self, client: Path, program: str, *arguments: str) -> str:
        """The output of a client here; its settings and logs go beside the state."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "FAKENVML"))}
        changed = {
            "HOME": str(self.state.parent),
            "GPUSHARE_CACHE": str(cache_folder(os.environ).parent),
            "PYTHONPATH": str(client),
            "COLUMNS": "120",
        }
        done = subprocess.run(
            [sys.executable, "-m", "fake_nvml.main", "exec", "--state", str(self.state), "--",
             sys.executable, str(client / "bin" / program), *arguments],
            env={**kept, **changed}, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout


def install(listed: str) -> Path:
    """The folder of a client by its list in .ci/constraints/clients, which is installed once. Raises NotInstallableError."""
    path = ROOT / ".ci" / "constraints" / "clients" / f"{listed}.txt"
    versions = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    folder = cache_folder(os.environ).with_name("clients") / f"{_PYTHON}-{listed}-{versions}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as draft:
            _pip(Path(draft) / "done", path)
            _publish(Path(draft) / "done", folder)
    return folder


def _pip(target: Path, listed: Path) -> None:
    """Install the listed packages into a folder. Raises NotInstallableError."""
    options = ["--quiet", "--disable-pip-version-check", "--retries=1", "--timeout=20", f"--target={target}"]
    command = [sys.executable, "-m", "pip", "install", *options, "--require-hashes", f"--requirement={listed}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise NotInstallableError(f"pip took more than {_INSTALL_SECONDS} s") from error
    if done.returncode != 0:
        raise NotInstallableError((done.stderr.strip().splitlines() or ["pip said nothing"])[-1])


def _publish(done: Path, folder: Path) -> None:
    """Show a finished installation under its name; another test run may have been first."""
    try:
        done.rename(folder)
    except OSError:
        if not folder.is_dir():  # no other test run was first
            raise
