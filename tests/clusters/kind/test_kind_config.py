"""Promises of clusters.kind.kind_config to the machine."""

from __future__ import annotations

from pathlib import Path

from clusters.kind.kind_config import Worker, cluster_config


def test_what_is_handed_in_cannot_be_written() -> None:
    """The folder of images is the user's cache, so each node has it for reading alone."""
    arguments = (Path("/run"), "gpushare-c", "i", [Worker("a1", Path("/a1"))], Path("/cache/images"), Path("/run/logs"))
    mounts = [mount for node in cluster_config(*arguments)["nodes"] for mount in node["extraMounts"]]

    assert [mount["readOnly"] for mount in mounts if mount["hostPath"] == "/cache/images"] == [True, True]
