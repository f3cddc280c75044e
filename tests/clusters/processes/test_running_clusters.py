"""Promises of clusters.processes.running_clusters."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from clusters.processes import running_clusters
from clusters.processes.running_clusters import Cluster

MINE, OTHERS = "/somewhere/mine", "/somewhere/others"


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"gpushare-clusters-{os.getuid()}"


@contextmanager
def waiting(folder: Path, checkout: str = MINE) -> Iterator[subprocess.Popen[bytes]]:
    """A process with the record of a cluster, which it locks; it waits until it is ended."""
    folder.mkdir(exist_ok=True)
    partial = folder / "new.part"
    with partial.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        argv = ["/bin/sh", "-c", "read x"]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, pass_fds=[file.fileno()])
        file.write(msgspec.json.encode(Cluster(process.pid, checkout)).decode())
    partial.rename(folder / str(process.pid))
    with process:
        try:
            yield process
        finally:
            process.kill()


def left_behind(folder: Path, pid: int) -> None:
    """A record of that pid without a lock."""
    folder.mkdir(exist_ok=True)
    (folder / str(pid)).write_text(json.dumps({"pid": pid, "checkout": MINE}))


def down(**arguments: bool) -> tuple[int, list[str]]:
    """The exit code and the lines of ``down`` in the checkout MINE."""
    said: list[str] = []
    return running_clusters.end_all(said.append, checkout=MINE, **arguments), said


def test_down_ends_this_checkouts_clusters_alone(own_folder: Path) -> None:
    """Another checkout's cluster goes on, and its record stays; ``--all`` ends it and names the checkout."""
    with waiting(own_folder) as mine, waiting(own_folder, OTHERS) as other:
        code, said = down()

        assert (code, mine.wait(10), other.poll()) == (0, -signal.SIGTERM, None)
        assert said[-1] == "1 of other checkouts stay up; `python -m clusters down --all` ends them too"
        assert (own_folder / str(other.pid)).exists()
        assert down(everywhere=True) == (0, [f"ending the cluster of process {other.pid}, of {OTHERS}"])
        assert other.wait(10) == -signal.SIGTERM
    assert list(own_folder.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    ["", "not ours", "12345", '{"pid": 1', "[" * 20_000, '{"pid": "x", "checkout": ""}'],
    ids=["empty", "words", "of an earlier version", "half written", "nested", "of a wrong kind"],
)
@pytest.mark.parametrize("name", ["notes.txt", "123", "123.part"])
def test_a_stray_file_is_skipped_with_a_line(own_folder: Path, name: str, text: str) -> None:
    """A stray file stays and is named, and the cluster recorded beside it is ended."""
    with waiting(own_folder) as process:
        (own_folder / name).write_text(text)
        code, said = down()

        assert (code, process.wait(10)) == (0, -signal.SIGTERM)
    assert [line for line in said if line.startswith(f"skipping {own_folder / name}")]
    assert [path.name for path in own_folder.iterdir()] == [name]


@pytest.mark.parametrize("pid", [0, 1, -1, 2**40])
def test_a_pid_that_no_cluster_has_is_no_record(own_folder: Path, pid: int) -> None:
    """Signals to 0 and -1 would reach whole groups of processes."""
    left_behind(own_folder, pid)

    assert down(everywhere=True)[1][0].startswith("skipping")


def test_a_recycled_pid_is_not_signalled(own_folder: Path) -> None:
    """The record of a cluster that crashed, with a number that belongs to another process now, or to none."""
    with subprocess.Popen(["/bin/sh", "-c", "read x"], stdin=subprocess.PIPE) as process:
        left_behind(own_folder, process.pid)

        assert down() == (0, [])
        assert process.poll() is None
        process.kill()
        process.wait()
        left_behind(own_folder, process.pid)
        assert down() == (0, [])
    assert list(own_folder.iterdir()) == []


def test_a_folder_that_is_a_link_is_not_trusted(own_folder: Path, tmp_path: Path) -> None:
    """Another user may have put it there."""
    (tmp_path / "elsewhere").mkdir()
    own_folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="not this user's"):
        running_clusters.end_all(lambda text: None)
