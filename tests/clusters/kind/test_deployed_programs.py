"""Promises of clusters.kind.deployed_programs."""

from __future__ import annotations

from clusters.kind.deployed_programs import plain, running_containers


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
