"""Promises of clusters.kind.engine.daemon and of how leftovers ends processes: only a process that is ours is ended."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clusters.kind.engine import daemon, leftovers
from clusters.kind.engine.place import Place


@contextmanager
def waiting(*arguments: str, program: str = "/bin/sh") -> Iterator[subprocess.Popen[bytes]]:
    """A process with these arguments that has begun, and waits."""
    pipe = subprocess.PIPE
    argv = [program, "-c", "echo; read x", *arguments]
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def test_a_recycled_pid_is_not_our_dockerd(tmp_path: Path) -> None:
    """The pid file outlives a SIGKILL. A process that only names our folder, as an editor of a file there, is none of ours."""
    place = Place(tmp_path, tmp_path / "data")
    assert daemon.running(place) is None
    with waiting(f"--exec-root={place.exec_root}") as other:
        place.pid_file.write_text(str(other.pid))

        assert daemon.running(place) is None
        daemon.end(place)
        assert other.poll() is None
    place.pid_file.write_text("not a number")
    assert daemon.running(place) is None


def test_a_dockerd_with_our_folder_is_ours(tmp_path: Path) -> None:
    """The kernel names its program, whatever it calls itself; the argument is whole."""
    place = Place(tmp_path, tmp_path / "data")
    dockerd = tmp_path / "dockerd"
    dockerd.write_bytes(Path("/bin/sh").resolve().read_bytes())
    dockerd.chmod(0o755)
    with waiting(f"--exec-root={place.exec_root}", program=str(dockerd)) as ours:
        place.pid_file.write_text(str(ours.pid))

        assert daemon.running(place) == ours.pid
        assert leftovers.in_this_network("dockerd").count(ours.pid) == 1
        assert not leftovers.is_running(ours.pid, "dockerd", f"--exec-root={place.exec_root}/other")
        daemon.end(place)
        assert ours.wait(10) == -signal.SIGTERM
    assert daemon.running(place) is None


def test_a_process_that_is_not_ours_gets_no_signal() -> None:
    """Asked when the number can no longer change hands."""
    with waiting() as other:
        assert leftovers.end(other.pid, lambda: False, 5)
        assert other.poll() is None


def test_a_process_that_does_not_end_is_killed() -> None:
    """After its time."""
    argv = ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as stubborn:
        assert stubborn.stdout is not None
        stubborn.stdout.readline()

        assert not leftovers.end(stubborn.pid, lambda: True, 0.2)
        assert stubborn.wait(10) == -signal.SIGKILL


def test_one_that_has_ended_already_is_nothing_to_end() -> None:
    """No error."""
    with subprocess.Popen(["true"]) as done:
        pass

    assert leftovers.end(done.pid, lambda: True, 5)


def test_the_members_of_a_group_are_killed_and_no_other_process() -> None:
    """Until there are none; one that leaves the group before then goes on."""
    with waiting() as member, waiting() as leaver:
        looks = iter([{member.pid, leaver.pid}])

        def members() -> set[int]:
            return next(looks, {member.pid} if member.poll() is None else set())

        leftovers.kill_all(members)

        assert (member.wait(10), leaver.poll()) == (-signal.SIGKILL, None)
        assert os.getpid() not in members()
