"""Promises of clusters.kind.engine.leftovers and processes: what is ours is found, and only that."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

from clusters.kind.engine import processes
from clusters.kind.engine.leftovers import mount_points

MOUNTS = """22 1 8:1 / / rw - ext4 /dev/root rw
30 22 0:1 / /run/gs/netns rw - tmpfs t rw
31 22 0:1 / /run/gs rw - tmpfs t rw
32 22 0:1 / /run/gsx rw - tmpfs t rw
33 22 0:1 / /data/overlay2/a/merged rw - overlay o rw
34 22 0:1 / /data/a\\040b rw - overlay o rw
"""


def test_mounts_below_a_folder_are_found_the_deepest_first() -> None:
    """And none of a folder whose name only begins alike."""
    found = mount_points(MOUNTS, [Path("/run/gs"), Path("/data")])

    assert found == ["/data/overlay2/a/merged", "/run/gs/netns", "/data/a b", "/run/gs"]


def test_a_process_is_found_by_an_argument_of_its_own(tmp_path: Path) -> None:
    """Whole, or a path below a folder; no other process has that folder in its arguments."""
    with subprocess.Popen(["sh", "-c", "exec sleep 60", f"{tmp_path}/x", f"--root={tmp_path}"]) as shell:
        (tmp_path / "s").symlink_to("/bin/sleep")
        with subprocess.Popen([tmp_path / "s", "60"]) as sleeper:
            # A program that has just been started has its arguments a moment later.
            deadline = time.monotonic() + 20
            while sleeper.pid not in (under := processes.with_argument_under(tmp_path)) and time.monotonic() < deadline:
                time.sleep(0.01)
            processes.end([sleeper.pid], 10)
        shell.kill()

    assert sleeper.pid in under
    assert sleeper.returncode == -signal.SIGTERM


def test_a_process_that_does_not_end_is_killed_and_named() -> None:
    """After its time."""
    argv = ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as stubborn:
        assert stubborn.stdout is not None
        stubborn.stdout.readline()
        killed = processes.end([stubborn.pid], 0.5)

    assert killed == [stubborn.pid]
    assert stubborn.returncode == -signal.SIGKILL


def test_one_that_has_ended_already_is_nothing_to_end() -> None:
    """No error."""
    with subprocess.Popen(["true"]) as done:
        pass

    assert processes.end([done.pid], 5) == []
