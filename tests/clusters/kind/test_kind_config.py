"""Promises of clusters.kind.kind_config to the machine."""

from __future__ import annotations

from pathlib import Path

import yaml

from clusters.kind.kind_config import Worker, write_config


def test_what_is_handed_in_cannot_be_written(tmp_path: Path) -> None:
    """The folder of images is the user's cache, so each node has it for reading alone."""
    workers, images = [Worker("a1", Path("/a1"))], Path("/cache/images")
    written = write_config(tmp_path, "gpushare-c", "i", workers, images, tmp_path / "logs", "{}", "")
    nodes = yaml.safe_load(written.read_text())["nodes"]
    mounts = [mount for node in nodes for mount in node["extraMounts"]]

    assert [mount["readOnly"] for mount in mounts if mount["hostPath"] == "/cache/images"] == [True, True]
