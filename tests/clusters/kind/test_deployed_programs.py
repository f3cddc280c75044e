"""Promises of clusters.kind.deployed_programs."""

from __future__ import annotations

from pathlib import Path

from clusters.kind.deployed_programs import PodsLog, plain, running_containers
from clusters.kind.node_container import NodeContainer


def test_a_log_is_shown_as_the_container_wrote_it() -> None:
    """A log has no times and streams; parts of a long line are joined, and empty lines stay."""
    kept = (
        "2026-01-01T00:00:00.1Z stdout F A=1\n"
        "2026-01-01T00:00:00.2Z stderr P long \n"
        "2026-01-01T00:00:00.2Z stderr F line\n"
        "2026-01-01T00:00:00.3Z stdout F \n"
        "2026-01-01T00:00:00.4Z stdout F x y\n"
    )

    assert plain(kept) == "A=1\nlong line\n\nx y\n"


def test_only_containers_that_run_are_signalled() -> None:
    """A pod that waits for its image has none yet."""
    running = {"containerID": "containerd://1", "state": {"running": {"startedAt": "t"}}}
    ended = {"containerID": "containerd://0", "state": {"terminated": {}}}

    assert running_containers({"status": {"containerStatuses": [ended, running]}}) == ["containerd://1"]
    assert running_containers({"status": {}}) == []


def test_the_log_of_a_workload_has_the_pods_of_one_program(tmp_path: Path) -> None:
    """Those that are gone come first, and another program of the node has a log of its own."""
    for pod in ("gpushare-device-plugin-ds-2-x9x9x", "gpushare-schd-extender-y8y8y"):
        folder = tmp_path / f"kube-system_{pod}_uid" / "gpushare"
        folder.mkdir(parents=True)
        (folder / "0.log").touch()
    node = NodeContainer("a1", "gpushare-1-worker", {}, tmp_path)
    log = PodsLog("device plugin of a1", node, "gpushare-device-plugin-ds", tmp_path / "kept.log")

    assert log.log_files() == [
        tmp_path / "kept.log",
        tmp_path / "kube-system_gpushare-device-plugin-ds-2-x9x9x_uid" / "gpushare" / "0.log",
    ]
