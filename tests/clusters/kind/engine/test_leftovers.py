"""Promises of clusters.kind.engine.leftovers: what is ours is found, and only that; the host's settings are put back."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clusters.kind.engine import daemon, leftovers
from clusters.kind.engine.place import Place

FORWARD = "proc/sys/net/ipv4/ip_forward"
INSTANCES = "proc/sys/fs/inotify/max_user_instances"
MOUNTS = """22 1 8:1 / / rw - ext4 /dev/root rw
30 22 0:1 / /run/gs/netns rw - tmpfs t rw
31 22 0:1 / /run/gs rw - tmpfs t rw
32 22 0:1 / /run/gsx rw - tmpfs t rw
33 22 0:1 / /data/overlay2/a/merged rw - overlay o rw
34 22 0:1 / /data/a\\040b rw - overlay o rw
"""


@contextmanager
def waiting(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process with these arguments that has begun, and waits."""
    pipe = subprocess.PIPE
    with subprocess.Popen(["/bin/sh", "-c", "echo; read x", *arguments], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def test_a_recycled_pid_is_not_our_dockerd(tmp_path: Path) -> None:
    """A process that only names our folder, as an editor of a file there, is none of ours, and gets no signal."""
    place = Place(tmp_path, tmp_path / "data")
    with waiting(f"--exec-root={place.exec_root}") as other:
        place.pid_file.write_text(str(other.pid))

        assert daemon.running(place) is None
        daemon.end(place)
        leftovers.end(other.pid, lambda: False, 5)
        assert other.poll() is None


def test_the_members_of_a_group_are_killed_and_no_other_process() -> None:
    """Members are killed until there are none; one that leaves the group before then goes on."""
    with waiting() as member, waiting() as leaver:
        looks = iter([{member.pid, leaver.pid}])

        def members() -> set[int]:
            return next(looks, {member.pid} if member.poll() is None else set())

        leftovers.kill_all(members)

        assert (member.wait(10), leaver.poll()) == (-signal.SIGKILL, None)


def test_mounts_below_a_folder_are_found_the_deepest_first() -> None:
    """The mounts below a folder are found, and none of a folder with a name that only begins alike."""
    found = leftovers.mount_points(MOUNTS, [Path("/run/gs"), Path("/data")])

    assert found == ["/data/overlay2/a/merged", "/run/gs/netns", "/data/a b", "/run/gs"]


@pytest.mark.parametrize(
    ("groups", "members"),
    [
        (
            {
                "pids/gs": "11\n0\n",
                "pids/gs/below": "12\n",
                "cpu,cpuacct/gs": "11\n",
                "pids/gs-other": "13\n",
                "pids/theirs/gs": "14\n",
            },
            {11, 12},
        ),
        ({".": "10\n", "gs/below": "12\n", "theirs/gs": "14\n"}, {12}),
    ],
    ids=["version 1", "unified"],
)
def test_members_are_those_of_our_groups(tmp_path: Path, groups: dict[str, str], members: set[int]) -> None:
    """Similar names, groups below another's, and the 0 of other namespaces do not count."""
    for name, pids in groups.items():
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "cgroup.procs").write_text(pids)
    if "." in groups:
        (tmp_path / "cgroup.controllers").touch()
    else:
        (tmp_path / "cpu").symlink_to("cpu,cpuacct")

    assert leftovers.members("gs", tmp_path) == members


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host with dockerd's changes, and the record of what was before."""
    for name, value in ((FORWARD, "1"), (INSTANCES, "512")):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(value)
    for folder in ("etc/docker", "run/docker/plugins"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "etc/docker/key.json").touch()
    absent = ["etc/docker/key.json", "run/docker/plugins", "run/docker"]
    before = {"settings": {FORWARD: "0", INSTANCES: "128"}, "absent": absent}
    (tmp_path / "before.json").write_text(json.dumps(before))
    return tmp_path


def test_the_hosts_settings_are_put_back_unless_a_user_set_them(root: Path) -> None:
    """Forwarding is as before, and what a user changed in between stays."""
    (root / INSTANCES).write_text("8192")
    leftovers.put_back(root / "before.json", root)

    assert ((root / FORWARD).read_text(), (root / INSTANCES).read_text()) == ("0", "8192")


def test_what_dockerd_made_is_removed_where_it_was_not_there(root: Path) -> None:
    """A folder that was there stays, and one in which there is something now."""
    (root / "run/docker/another").touch()
    leftovers.put_back(root / "before.json", root)

    left = sorted(str(path.relative_to(root)) for path in root.glob("[er]*/**/*"))
    assert left == ["etc/docker", "run/docker", "run/docker/another"]


@pytest.mark.parametrize(("file", "needed"), [("before.json", True), ("none.json", False)])
def test_settings_that_another_docker_needs_stay(root: Path, file: str, needed: bool) -> None:
    """Settings stay if another Docker came after ours and needs forwarding, or if nothing was recorded."""
    leftovers.put_back(root / file, root, needed=needed)

    assert ((root / FORWARD).read_text(), (root / "etc/docker/key.json").exists()) == ("1", True)
