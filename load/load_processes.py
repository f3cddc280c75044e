"""The processor time and memory of processes so far, by the kernel."""

from __future__ import annotations

import os
from pathlib import Path


def cpu_seconds(pid: int) -> float:
    """Processor time of a process, in all its threads. Raises FileNotFoundError once it is gone."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def mib(pid: int, row: str) -> float:
    """Memory of a process, in MiB: ``VmRSS`` now, ``VmHWM`` the most so far. Raises FileNotFoundError once it is gone."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith(row)).split()[1]) / 1024
