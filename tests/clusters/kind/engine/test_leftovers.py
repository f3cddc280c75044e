"""Promises of clusters.kind.engine.leftovers: what is ours is found, and only that; the host's settings are put back."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from clusters.kind.engine import daemon, leftovers
from clusters.kind.engine.docker_client import Place

FORWARD = "proc/sys/net/ipv4/ip_forward"
INSTANCES = "proc/sys/fs/inotify/max_user_instances"


def test_a_recycled_pid_is_not_our_dockerd(tmp_path: Path) -> None:
    """A process that only names our folder, as an editor of a file there, is none of ours, and gets no signal."""
    place = Place(tmp_path, tmp_path / "data")
    argv = ["/bin/sh", "-c", "read x", f"--exec-root={place.exec_root}"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as other:
        place.pid_file.write_text(str(other.pid))
        found = daemon.running(place)
        daemon.end(place)
        leftovers.end(other.pid, lambda: False, 5)
        ended = other.poll()
        other.kill()

    assert (found, ended) == (None, None)


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


def test_the_host_is_as_before_but_for_what_others_changed(root: Path) -> None:
    """Forwarding and absent files are as before; a setting that a user changed stays, and a folder that was there or is in use."""
    (root / INSTANCES).write_text("8192")
    (root / "run/docker/another").touch()
    leftovers.put_back(root / "before.json", root)

    assert ((root / FORWARD).read_text(), (root / INSTANCES).read_text()) == ("0", "8192")
    left = sorted(str(path.relative_to(root)) for path in root.glob("[er]*/**/*"))
    assert left == ["etc/docker", "run/docker", "run/docker/another"]


@pytest.mark.parametrize(("file", "needed"), [("before.json", True), ("none.json", False)])
def test_settings_that_another_docker_needs_stay(root: Path, file: str, needed: bool) -> None:
    """Settings stay if another Docker came after ours and needs forwarding, or if nothing was recorded."""
    leftovers.put_back(root / file, root, needed=needed)

    assert ((root / FORWARD).read_text(), (root / "etc/docker/key.json").exists()) == ("1", True)
