"""Promises of a kind cluster that no case on Docker (e2e/kind) shows: configuration, workers, records, node image, thawing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from clusters.kind.kind_config import Worker, write_config
from clusters.kind.offline.node_image import build
from clusters.kind.offline.node_image.build import minors, modules
from clusters.kind.sweeping import RunRecord, abandoned, record
from clusters.kind.workers import Workers
from clusters.provider import ClusterError, NodeSpec


def test_what_is_handed_in_cannot_be_written(tmp_path: Path) -> None:
    """The folder of images is the user's cache, so each node has it for reading alone."""
    workers, images = [Worker("a1", Path("/a1"))], Path("/cache/images")
    written = write_config(tmp_path, "gpushare-c", "i", workers, images, tmp_path / "logs", "{}", "")
    nodes = yaml.safe_load(written.read_text())["nodes"]
    mounts = [mount for node in nodes for mount in node["extraMounts"]]

    assert [mount["readOnly"] for mount in mounts if mount["hostPath"] == "/cache/images"] == [True, True]


def test_a_name_that_is_no_label_is_refused(tmp_path: Path) -> None:
    """The error for a node that a real kubelet cannot register has the limit, and the providers without it."""
    found = Workers("c", tmp_path, {}, [])
    found.prepare([NodeSpec("a" * 63)])
    with pytest.raises(ClusterError, match="64 characters; on kind a node's name has 63 at most.*embedded"):
        found.prepare([NodeSpec("a" * 64)])


def runs(folder: Path) -> list[RunRecord]:
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


def test_a_change_of_pins_or_files_is_another_name(tmp_path: Path) -> None:
    """An image that is there must not hide another program or a unit that was corrected."""
    built = modules(minors()[0])
    unit = tmp_path / "a.service"
    unit.write_text("[Unit]\n")
    before = build.name_of(built, tmp_path)
    unit.write_text("[Service]\n")

    assert re.fullmatch(rf"gpushare/kind-node:{re.escape(built[0].version)}-[0-9a-f]{{12}}", before)
    names = {before, build.name_of(built, tmp_path), build.name_of(built[:-1], tmp_path), build.name_of(built)}
    assert len(names) == 4
    assert build.name_of(built) == build.name_of(built)
