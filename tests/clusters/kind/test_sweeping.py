"""Promises of clusters.kind.sweeping that no case on Docker (e2e/kind) shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.kind.sweeping import RunRecord, abandoned, record


def runs(folder: Path) -> list[RunRecord]:
    """Those that a sweep would take."""
    with abandoned(folder, lambda run: True) as found:
        return [run for _, run in found]


def test_a_run_that_could_not_clean_up_is_swept_later(tmp_path: Path) -> None:
    """A record stays if its run ends with an error, and only then; a file that is no record stays and names no cluster."""
    (tmp_path / "x.run").write_text("not ours")
    with pytest.raises(OSError, match="docker"), record(tmp_path, RunRecord("gpushare-a")):
        raise OSError("docker")
    with record(tmp_path, RunRecord("gpushare-b")):
        assert runs(tmp_path) == [RunRecord("gpushare-a")]

    assert runs(tmp_path) == [RunRecord("gpushare-a")]
    assert (tmp_path / "x.run").exists()


def test_a_killed_run_is_swept_by_its_checkout(tmp_path: Path) -> None:
    """Another checkout sweeps a run only if the run's checkout is gone, or if none was recorded."""
    mine = RunRecord("gpushare-a", checkout=str(tmp_path))

    assert mine.is_swept_by(str(tmp_path))
    assert not mine.is_swept_by("/another")
    assert RunRecord("gpushare-a", checkout=str(tmp_path / "gone")).is_swept_by("/another")
    assert RunRecord("gpushare-a").is_swept_by("/another")
