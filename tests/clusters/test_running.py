"""Promises of clusters.running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from clusters import running


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Records of this test only."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"gpushare-clusters-{os.getuid()}"


def test_a_cluster_is_recorded_while_it_runs(own_folder: Path) -> None:
    """And not a moment longer."""
    with running.record():
        assert [path.name for path in own_folder.iterdir()] == [str(os.getpid())]
    assert list(own_folder.iterdir()) == []


def test_down_ends_what_is_recorded(own_folder: Path) -> None:
    """With SIGTERM, by pid and start time."""
    said: list[str] = []
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        own_folder.mkdir()
        (own_folder / str(process.pid)).write_text(str(running._started(process.pid)))

        assert running.end_all(said.append) == 0
        assert process.wait(10) == -signal.SIGTERM
    assert (said, list(own_folder.iterdir())) == ([f"ending the cluster of process {process.pid}"], [])


def test_a_cluster_that_ends_at_once_is_not_waited_for(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anybody has looked whether it still runs."""
    monkeypatch.setattr(running, "_END_SECONDS", 0.5)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        own_folder.mkdir()
        (own_folder / str(process.pid)).write_text(str(running._started(process.pid)))

        really_kill = os.kill

        def kill(pid: int, number: int) -> None:
            really_kill(pid, number)
            process.wait(10)

        with monkeypatch.context() as patched:
            patched.setattr(os, "kill", kill)
            assert running.end_all(lambda text: None) == 0


def test_a_pid_that_is_somebody_elses_by_now_is_left_alone(own_folder: Path) -> None:
    """The record of a cluster that crashed, its pid used again."""
    own_folder.mkdir()
    (own_folder / str(os.getpid())).write_text("12345")

    assert running.end_all(lambda text: None) == 0
    assert list(own_folder.iterdir()) == []


def test_nothing_to_end_says_so(own_folder: Path) -> None:
    """And is a success."""
    said: list[str] = []

    assert (running.end_all(said.append), said) == (0, ["no cluster is up"])


def test_a_folder_that_is_a_link_is_not_trusted(own_folder: Path, tmp_path: Path) -> None:
    """Somebody else may have put it there."""
    (tmp_path / "elsewhere").mkdir()
    own_folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="not this user's"):
        running.end_all(lambda text: None)
