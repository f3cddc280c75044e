"""A node's processes in the kernel's form: a folder like ``/proc`` in which each simulated one has its control group.

Only ``<pid>/cgroup`` is there, in version 2, named as containerd does it with the systemd driver. Programs that map a pid to
its pod get this folder instead of the machine's own ``/proc``, in which simulated pids do not exist.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Final

FOLDER_NAME: Final = "proc"


class ProcessTree:
    """The folder, made with the first process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, pid: int, uid: str) -> None:
        """A process of a container of that pod is there."""
        slice_name = f"kubepods-burstable-pod{uid.replace('-', '_')}.slice"
        # A container's id is 32 bytes in hexadecimal digits; this one is its pid's alone.
        container = hashlib.sha256(str(pid).encode()).hexdigest()
        path = self._folder / str(pid)
        path.mkdir(parents=True, exist_ok=True)
        (path / "cgroup").write_text(
            f"0::/kubepods.slice/kubepods-burstable.slice/{slice_name}/cri-containerd-{container}.scope\n"
        )

    def remove(self, pid: int) -> None:
        """It has ended."""
        shutil.rmtree(self._folder / str(pid), ignore_errors=True)
