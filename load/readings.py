"""The use of processes so far, by the kernel and by their pages for Prometheus."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample


def cpu_seconds(pid: int) -> float:
    """Processor time of a process, in all its threads. Raises FileNotFoundError once it is gone."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def mib(pid: int, row: str) -> float:
    """Memory of a process, in MiB: ``VmRSS`` now, ``VmHWM`` the most so far. Raises FileNotFoundError once it is gone."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith(row)).split()[1]) / 1024


def samples(page: str, names: Iterable[str]) -> Iterator[Sample]:
    """Samples with names that begin so. A page with a line for each of thousands of cards is long, and is not parsed as a whole."""
    wanted = tuple(names)
    lines = [line for line in page.splitlines() if line.startswith(wanted)]
    for family in text_string_to_metric_families("\n".join([*lines, ""])):
        yield from family.samples
