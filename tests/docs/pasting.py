"""A shell into which a reader pastes the commands of pages."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from clusters.demo import SAMPLES
from tests.tracked_files import ROOT, tracked

# A make of the pages finds the environment of the tests ready, and can install nothing into it: that ends with an error.
_READY: Final = (".runs", ".ready")
_MAKE: Final = " -- CAN_RUN=.runs READY=.ready PIP=false PYTHON=false"
_SECONDS: Final = 300
# The last line that a cluster prints once it is up.
_IS_UP: Final = "Ctrl-C ends the cluster\n"


class Shell:
    """A bash of a reader, in a folder with the checkout's files, beside the checkout. It ends at the first command that fails."""

    def __init__(self, folder: Path, kubectl: Path) -> None:
        self.folder = folder
        self.begins_with = f"export PATH={kubectl.parent}:$PATH MAKEFLAGS='{_MAKE}'\n"
        (folder / "etc" / "kubernetes" / "manifests").mkdir(parents=True)
        (folder / "etc" / "kubernetes" / "manifests" / "kube-scheduler.yaml").touch()
        for name in {name.partition("/")[0] for name in tracked()}:
            (folder / name).symlink_to(ROOT / name)
        (folder / ".venv").symlink_to(sys.prefix)
        for name in _READY:
            (folder / name).touch()
        (folder / "pod.yaml").symlink_to(SAMPLES / "latecomer.yaml")
        (folder.parent / "gpushare").symlink_to(ROOT)

    def run(self, script: str) -> str:
        """The output of the commands, each of which ends with 0."""
        with self._start(script) as bash:
            printed, _ = bash.communicate(timeout=_SECONDS)
        assert bash.returncode == 0, printed[-3000:]
        return printed

    @contextlib.contextmanager
    def cluster(self, command: str) -> Iterator[str]:
        """The lines that a command prints about the cluster that it starts; Ctrl-C ends it."""
        with self._start(command) as bash:
            try:
                assert bash.stdout is not None
                printed = ""
                while not printed.endswith(_IS_UP):
                    printed += (line := bash.stdout.readline())
                    assert line, f"the cluster did not come up: {printed}"
                yield printed
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(bash.pid, signal.SIGINT)
                bash.communicate(timeout=_SECONDS)

    def _start(self, script: str) -> subprocess.Popen[str]:
        environment = {"HOME": str(self.folder), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
        text = f"set -euo pipefail; shopt -s expand_aliases\n{self.begins_with}{script}"
        return subprocess.Popen(
            ["bash", "-c", text],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
