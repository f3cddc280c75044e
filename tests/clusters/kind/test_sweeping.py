"""Promises of clusters.kind.sweeping; on Docker they are in e2e/kind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from clusters.kind.sweeping import RunRecord, abandoned, record

ROOT = Path(__file__).parents[3]
HOLD = """
import sys
from pathlib import Path
from clusters.kind.sweeping import RunRecord, record
with record(Path(sys.argv[1]), RunRecord("gpushare-dead", "unix:///s")):
    print("up", flush=True)
    sys.stdin.read()
"""


def runs(folder: Path) -> list[RunRecord]:
    """Those that a sweep would take."""
    with abandoned(folder, lambda run: True) as found:
        return [run for _, run in found]


def test_a_killed_run_is_found_once_and_a_live_one_is_not(tmp_path: Path) -> None:
    """The kernel ends the lock with the process, and of two sweeps at once the second finds nothing to do."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], cwd=ROOT, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        alive = runs(tmp_path)
        process.kill()

    assert alive == []
    with abandoned(tmp_path, lambda run: True) as first:
        assert ([run for _, run in first], runs(tmp_path)) == ([RunRecord("gpushare-dead", "unix:///s")], [])


def test_a_run_that_could_not_clean_up_is_swept_later(tmp_path: Path) -> None:
    """A record stays if its run ends with an error, and only then."""
    with pytest.raises(OSError, match="docker"), record(tmp_path, RunRecord("gpushare-a")):
        raise OSError("docker")
    with record(tmp_path, RunRecord("gpushare-b")):
        pass

    assert runs(tmp_path) == [RunRecord("gpushare-a")]


def test_another_users_file_is_left_alone(tmp_path: Path) -> None:
    """A file that is not a record names no cluster and is left alone."""
    (tmp_path / "x.run").write_text("not ours")

    assert runs(tmp_path) == []
    assert (tmp_path / "x.run").exists()


def test_a_killed_run_is_swept_by_its_checkout(tmp_path: Path) -> None:
    """Another checkout sweeps a run only if the run's checkout is gone, or if none was recorded."""
    mine = RunRecord("gpushare-a", checkout=str(tmp_path))

    assert mine.is_swept_by(str(tmp_path))
    assert not mine.is_swept_by("/another")
    assert RunRecord("gpushare-a", checkout=str(tmp_path / "gone")).is_swept_by("/another")
    assert RunRecord("gpushare-a").is_swept_by("/another")
