"""Promises of clusters.kind.engine.engine_cgroups, on folders that look like the kernel's."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.kind.engine import engine_cgroups


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
    assert engine_cgroups.members("gs", mounted) == {11, 12}


def test_a_unified_hierarchy_has_one_group(tmp_path: Path) -> None:
    """A group of that name in another's is another's."""
    (tmp_path / "cgroup.controllers").touch()
    group(tmp_path / "gs/below", "12\n")
    group(tmp_path / "theirs/gs", "14\n")

    assert engine_cgroups.members("gs", tmp_path) == {12}


@pytest.mark.parametrize(("version", "where"), [(1, "pids/gs"), (2, "gs")])
def test_a_group_is_made_where_processes_may_join(tmp_path: Path, version: int, where: str) -> None:
    """A second time it is there."""
    (tmp_path / "pids").mkdir()

    assert engine_cgroups.make("gs", version, tmp_path) == engine_cgroups.make("gs", version, tmp_path)
    assert (tmp_path / where).is_dir()
