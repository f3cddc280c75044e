"""Promises of programs that builds and clusters run, with their progress, ports and folders."""

from __future__ import annotations

import asyncio
import io
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from clusters.processes.commands import Progress, run, watch
from clusters.processes.scratch import free_port
from clusters.provider import ClusterError

ENVIRONMENT = {"PATH": os.environ["PATH"]}


def watched(argv: list[str]) -> None:
    with Progress("build", "it", io.StringIO()) as progress:
        watch(argv, ENVIRONMENT, progress)


@pytest.mark.parametrize("start", [lambda argv: run(argv, ENVIRONMENT), watched], ids=["run", "watch"])
def test_failure_shows_the_end_of_the_output(start) -> None:
    """The error shows the command, its exit code and the last lines of both streams."""
    with pytest.raises(ClusterError) as raised:
        start(["sh", "-c", "seq 1000; echo why >&2; exit 3"])

    assert "sh -c" in str(raised.value)
    assert "ended with 3" in str(raised.value)
    assert str(raised.value).endswith("1000\nwhy")
    assert len(str(raised.value).splitlines()) < 30


async def test_a_port_stays_ours_until_a_server_of_ours_listens_on_it() -> None:
    """No other process gets it in between, nor while the server restarts; the server itself may listen."""
    port = free_port()
    for _ in range(2):
        with socket.socket() as somebody, pytest.raises(OSError, match="already in use"):
            somebody.bind(("127.0.0.1", port))
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", port)
        server.close()
        await server.wait_closed()


HOLDER = """
import sys, time
from clusters.processes.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "inner").mkdir()
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_the_folder_is_gone_when_its_holder_was_killed() -> None:
    """SIGKILL leaves no chance to tidy up; another process does."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert holder.stdout is not None
    assert holder.stdin is not None
    folder = Path(holder.stdout.readline().strip())
    assert (folder / "inner").is_dir()
    holder.kill()
    holder.wait()
    holder.stdout.close()
    holder.stdin.close()

    for _ in range(1000):
        if not folder.exists():
            break
        subprocess.run(["sleep", "0.02"], check=True)
    assert not folder.exists()
