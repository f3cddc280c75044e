"""Promises of clusters.kind.engine.leftovers: what is ours is found, and only that; the host's settings are put back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clusters.kind.engine import leftovers

FORWARD = "proc/sys/net/ipv4/ip_forward"
INSTANCES = "proc/sys/fs/inotify/max_user_instances"
MOUNTS = """22 1 8:1 / / rw - ext4 /dev/root rw
30 22 0:1 / /run/gs/netns rw - tmpfs t rw
31 22 0:1 / /run/gs rw - tmpfs t rw
32 22 0:1 / /run/gsx rw - tmpfs t rw
33 22 0:1 / /data/overlay2/a/merged rw - overlay o rw
34 22 0:1 / /data/a\\040b rw - overlay o rw
"""


def test_mounts_below_a_folder_are_found_the_deepest_first() -> None:
    """The mounts below a folder are found, and none of a folder with a name that only begins alike."""
    found = leftovers.mount_points(MOUNTS, [Path("/run/gs"), Path("/data")])

    assert found == ["/data/overlay2/a/merged", "/run/gs/netns", "/data/a b", "/run/gs"]


def group(folder: Path, pids: str = "") -> None:
    """A group with these members."""
    folder.mkdir(parents=True)
    (folder / "cgroup.procs").write_text(pids)


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    """Version 1: two hierarchies, one of which has a second name."""
    group(tmp_path / "pids/gs", "11\n0\n")
    group(tmp_path / "pids/gs/below", "12\n")
    group(tmp_path / "cpu,cpuacct/gs", "11\n")
    group(tmp_path / "pids/gs-other", "13\n")
    group(tmp_path / "pids/theirs/gs", "14\n")
    (tmp_path / "cpu").symlink_to("cpu,cpuacct")
    return tmp_path


def test_members_are_those_of_our_groups(mounted: Path) -> None:
    """Members are those of our groups: similar names, groups below another's, and the 0 of other namespaces do not count."""
    assert leftovers.members("gs", mounted) == {11, 12}


def test_a_unified_hierarchy_has_one_group(tmp_path: Path) -> None:
    """A group of that name in another's is another's."""
    (tmp_path / "cgroup.controllers").touch()
    group(tmp_path / "gs/below", "12\n")
    group(tmp_path / "theirs/gs", "14\n")

    assert leftovers.members("gs", tmp_path) == {12}


@pytest.mark.parametrize(("version", "where"), [(1, "pids/gs"), (2, "gs")])
def test_a_group_is_made_where_processes_may_join(tmp_path: Path, version: int, where: str) -> None:
    """A second time it is there."""
    (tmp_path / "pids").mkdir()

    assert leftovers.make_group("gs", version, tmp_path) == leftovers.make_group("gs", version, tmp_path)
    assert (tmp_path / where).is_dir()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host as it was, with dockerd's changes."""
    for name, value in ((FORWARD, "1"), (INSTANCES, "512")):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(value)
    for folder in ("etc/docker", "run/docker/plugins"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "etc/docker/key.json").touch()
    return tmp_path


def written(root: Path, **facts: object) -> Path:
    """The record of the former settings."""
    before = {"settings": {FORWARD: "0", INSTANCES: "128"}, **facts}
    (root / "before.json").write_text(json.dumps(before))
    return root / "before.json"


def test_the_hosts_settings_are_put_back(root: Path) -> None:
    """The settings for forwarding and for inotify instances are put back."""
    leftovers.put_back(written(root), root)

    assert ((root / FORWARD).read_text(), (root / INSTANCES).read_text()) == ("0", "128")


def test_what_a_user_changed_meanwhile_stays(root: Path) -> None:
    """A setting that a user changed in between stays as the user set it."""
    (root / INSTANCES).write_text("8192")
    leftovers.put_back(written(root), root)

    assert (root / INSTANCES).read_text() == "8192"


def test_what_dockerd_made_is_removed_where_it_was_not_there(root: Path) -> None:
    """A folder that was there stays, and one in which there is something now."""
    (root / "run/docker/somebody").touch()
    absent = ["etc/docker/key.json", "run/docker/plugins", "run/docker"]
    leftovers.put_back(written(root, absent=absent), root)

    assert sorted(str(path.relative_to(root)) for path in root.glob("[er]*/**/*")) == [
        "etc/docker",
        "run/docker",
        "run/docker/somebody",
    ]


def test_settings_that_another_docker_needs_stay(root: Path) -> None:
    """Settings stay if another Docker came after ours, because its containers need forwarding."""
    file = written(root, absent=["etc/docker/key.json"])
    leftovers.put_back(file, root, needed=True)

    assert ((root / FORWARD).read_text(), (root / "etc/docker/key.json").exists()) == ("1", True)
    assert not file.exists()


def test_without_an_earlier_range_nothing_changes(root: Path) -> None:
    """Another's Docker may need it as it is."""
    leftovers.put_back(root / "none.json", root)

    assert (root / FORWARD).read_text() == "1"
