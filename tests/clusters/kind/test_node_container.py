"""Promises of clusters.kind.node_container, on real control groups (root and cgroup v1; else skipped)."""

from __future__ import annotations

import asyncio
import secrets
import signal
import subprocess
from collections.abc import Iterator

import pytest

from clusters.kind.node_container import FREEZER, thaw, thawing


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
