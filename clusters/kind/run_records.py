"""Which runs have a kind cluster, so that the next run can remove what a killed one left behind.

The files lie in the user's cache and not in /tmp: a restart of the machine empties that, and the stopped containers would stay.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from clusters.processes import locked_records

_SUFFIX: Final = ".run"


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One cluster of one run: its name, the Docker that has it (``DOCKER_HOST``; "" for the usual one), and the run's process."""

    cluster: str
    docker_host: str = ""
    pid: int = 0
    """For people: the lock decides whether the run lives."""
    checkout: str = ""
    """The root of the checkout that made it; "" in records of versions that did not write it."""

    def is_swept_by(self, checkout: str) -> bool:
        """May this checkout remove what a killed run left? Its own, and what no checkout is left for."""
        return self.checkout in ("", checkout) or not Path(self.checkout).is_dir()


@contextlib.contextmanager
def record(folder: Path, run: RunRecord) -> Iterator[None]:
    """While inside, the cluster is known to be in use. Left with an error, the record stays for the next sweep."""
    folder.mkdir(parents=True, exist_ok=True)
    with locked_records.record(folder / f"{run.cluster}{_SUFFIX}", asdict(run)):
        yield


@contextlib.contextmanager
def abandoned(folder: Path, wanted: Callable[[RunRecord], bool]) -> Iterator[list[tuple[Path, RunRecord]]]:
    """The wanted runs that are gone, with their files; no other process gets these while inside."""
    with contextlib.ExitStack() as stack:
        paths = [path for path in sorted(folder.glob(f"*{_SUFFIX}")) if locked_records.take_over(path, stack)]
        found = [(path, run) for path in paths if (run := _read(path)) is not None]
        yield [(path, run) for path, run in found if wanted(run)]


def _read(path: Path) -> RunRecord | None:
    """None for a file that no run of ours wrote."""
    try:
        return RunRecord(**json.loads(path.read_text()))
    except (ValueError, TypeError):
        return None
