"""Promises of clusters.kind.sweeping; on Docker they are in e2e/kind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from clusters.kind.sweeping import (
    RunRecord,
    abandoned,
    docker_commands,
    folder_of_runs,
    record,
    sweep,
    sweep_all,
)

ROOT = Path(__file__).parents[3]
HOLD = """
import sys
from pathlib import Path
from clusters.kind.sweeping import RunRecord, record
with record(Path(sys.argv[1]), RunRecord("gpushare-dead", "unix:///s")):
    print("up", flush=True)
    sys.stdin.read()
"""


def _started(name: str) -> subprocess.Popen[bytes]:
    """A process of this name that waits; it has printed a line: the kernel shows the arguments of a new process a moment late."""
    pipe = subprocess.PIPE
    argv = [name, "-c", "echo; read x", "gpushare-1-worker"]
    process = subprocess.Popen(argv, executable="/bin/sh", stdin=pipe, stdout=pipe)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_docker_commands_of_a_cluster_are_found_and_no_others() -> None:
    """By the name of the program and by the cluster in its words: an editor of its log is no such command."""
    with _started("docker") as one:
        assert (docker_commands("gpushare-1"), docker_commands("gpushare-2")) == ([one.pid], [])
        one.kill()
    with _started("sh") as other:
        assert docker_commands("gpushare-1") == []
        other.kill()


async def test_a_user_without_killed_runs_needs_no_docker(tmp_path: Path) -> None:
    """The sweep needs no Docker if there are no records of killed runs."""
    assert await sweep_all({"GPUSHARE_CACHE": str(tmp_path), "PATH": ""}) == []


async def test_a_live_run_is_not_swept(tmp_path: Path) -> None:
    """A live run holds its record, so it is not swept."""
    environment = {"GPUSHARE_CACHE": str(tmp_path), "PATH": "/usr/bin:/bin"}
    with record(folder_of_runs(environment), RunRecord("gpushare-live")):
        assert await sweep(folder_of_runs(environment), environment) == []
        assert [path.stem for path in folder_of_runs(environment).iterdir()] == ["gpushare-live"]


def holder(folder: Path) -> subprocess.Popen[bytes]:
    """Another process with a cluster."""
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], cwd=ROOT, stdin=pipe, stdout=pipe)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    return process


def runs(folder: Path) -> list[RunRecord]:
    """Those that a sweep would take."""
    with abandoned(folder, lambda run: True) as found:
        return [run for _, run in found]


def test_a_killed_run_is_found_and_a_live_one_is_not(tmp_path: Path) -> None:
    """The kernel ends the lock with the process."""
    process = holder(tmp_path)
    alive = runs(tmp_path)
    process.kill()
    process.communicate()

    assert alive == []
    assert runs(tmp_path) == [RunRecord("gpushare-dead", "unix:///s")]


def test_a_run_that_ends_leaves_no_record(tmp_path: Path) -> None:
    """A run that ends leaves no record, because its cluster is gone by then."""
    with record(tmp_path, RunRecord("gpushare-a")):
        assert [path.name for path in tmp_path.iterdir()] == ["gpushare-a.run"]
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_could_not_clean_up_is_swept_later(tmp_path: Path) -> None:
    """Left with an error, the record stays."""
    with pytest.raises(OSError, match="docker"), record(tmp_path, RunRecord("gpushare-a")):
        raise OSError("docker")

    assert runs(tmp_path) == [RunRecord("gpushare-a")]


def test_two_sweeps_at_once_do_not_take_the_same_run(tmp_path: Path) -> None:
    """The second finds nothing to do."""
    process = holder(tmp_path)
    process.kill()
    process.communicate()

    with abandoned(tmp_path, lambda run: True) as first:
        assert (len(first), runs(tmp_path)) == (1, [])


def test_another_users_file_is_left_alone(tmp_path: Path) -> None:
    """A file that is not a record names no cluster and is left alone."""
    (tmp_path / "x.run").write_text("not ours")

    assert runs(tmp_path) == []
    assert (tmp_path / "x.run").exists()


def test_a_killed_run_is_swept_by_its_checkout(tmp_path: Path) -> None:
    """By another only if its checkout is gone, or if no checkout was recorded."""
    mine = RunRecord("gpushare-a", checkout=str(tmp_path))

    assert mine.is_swept_by(str(tmp_path))
    assert not mine.is_swept_by("/another")
    assert RunRecord("gpushare-a", checkout=str(tmp_path / "gone")).is_swept_by("/another")
    assert RunRecord("gpushare-a").is_swept_by("/another")
