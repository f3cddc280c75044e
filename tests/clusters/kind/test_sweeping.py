"""Promises of clusters.kind.sweeping; on Docker they are in e2e/kind."""

from __future__ import annotations

import subprocess
from pathlib import Path

from clusters.kind.run_records import RunRecord, record
from clusters.kind.sweeping import docker_commands, folder_of_runs, sweep, sweep_all


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
