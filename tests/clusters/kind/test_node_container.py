"""Promises of clusters.kind.node_container, on real control groups (root and cgroup v1; else skipped)."""

from __future__ import annotations

import asyncio
import secrets
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters.kind.node_container import FREEZER, NodeContainer, thaw, thawing


@pytest.fixture
def container() -> Iterator[str]:
    """A container's control group with one below it, as on a node."""
    name = secrets.token_hex(32)
    group = FREEZER / f"docker-{name}.scope"
    try:
        (group / "pod").mkdir(parents=True)
    except OSError as error:
        pytest.skip(f"no control groups of version 1 can be made here: {error}")
    yield name
    (group / "pod").rmdir()
    group.rmdir()


def frozen_sleeper(container: str) -> subprocess.Popen[bytes]:
    """A process that is frozen in the container."""
    group = FREEZER / f"docker-{container}.scope" / "pod"
    process = subprocess.Popen(["sleep", "600"])
    (group / "cgroup.procs").write_text(str(process.pid))
    (group / "freezer.state").write_text("FROZEN")
    return process


async def test_what_is_frozen_in_a_container_can_be_killed(container: str) -> None:
    """A frozen process takes no SIGKILL before its container is thawed, which thaws no other."""
    process = frozen_sleeper(container)
    process.send_signal(signal.SIGKILL)

    thaw("0" * 64)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.2)
    async with thawing([container]):
        assert await asyncio.to_thread(process.wait, 300) == -signal.SIGKILL


def test_logs_are_read_while_pods_come_and_go(tmp_path: Path) -> None:
    """The folders of pods that the kubelet removes during the reading are left out."""
    node = NodeContainer("a1", "c-a1", {}, tmp_path)
    kept = tmp_path / "kube-system_kept_1" / "plugin" / "0.log"
    kept.parent.mkdir(parents=True)
    kept.write_text("a line\n")
    (kept.parent / "1.log").symlink_to("/nonexistent")
    has_ended = threading.Event()

    def churn() -> None:
        folder = tmp_path / "kube-system_gone_2"
        while not has_ended.is_set():
            folder.mkdir()
            folder.rmdir()

    kubelet = threading.Thread(target=churn)
    kubelet.start()
    try:
        found = {node.read_logs("kube-system_") for _ in range(2000)}
    finally:
        has_ended.set()
        kubelet.join()
    assert found == {"a line\n"}
