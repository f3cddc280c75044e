"""Promises of clusters.kind.engine.engine_settings."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from clusters.kind.engine import engine_settings

FORWARD = "proc/sys/net/ipv4/ip_forward"
INSTANCES = "proc/sys/fs/inotify/max_user_instances"
ENVIRONMENT = {"PATH": os.environ.get("PATH", "")}


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
    before = {"settings": {FORWARD: "0", INSTANCES: "128"}, "forward": "DROP", "docker": False, **facts}
    (root / "before.json").write_text(json.dumps(before))
    return root / "before.json"


def test_the_hosts_settings_are_put_back(root: Path) -> None:
    """The settings for forwarding and for inotify instances are put back."""
    engine_settings.put_back(written(root), ENVIRONMENT, root)

    assert ((root / FORWARD).read_text(), (root / INSTANCES).read_text()) == ("0", "128")


def test_what_a_user_changed_meanwhile_stays(root: Path) -> None:
    """A setting that a user changed in between stays as the user set it."""
    (root / INSTANCES).write_text("8192")
    engine_settings.put_back(written(root), ENVIRONMENT, root)

    assert (root / INSTANCES).read_text() == "8192"


def test_what_dockerd_made_is_removed_where_it_was_not_there(root: Path) -> None:
    """A folder that was there stays, and one in which there is something now."""
    (root / "run/docker/somebody").touch()
    absent = ["etc/docker/key.json", "run/docker/plugins", "run/docker"]
    engine_settings.put_back(written(root, absent=absent), ENVIRONMENT, root)

    assert sorted(str(path.relative_to(root)) for path in root.glob("[er]*/**/*")) == [
        "etc/docker",
        "run/docker",
        "run/docker/somebody",
    ]


def test_settings_that_another_docker_needs_stay(root: Path) -> None:
    """Settings stay if another Docker came after ours, because its containers need forwarding."""
    file = written(root, absent=["etc/docker/key.json"])
    engine_settings.put_back(file, ENVIRONMENT, root, needed=True)

    assert ((root / FORWARD).read_text(), (root / "etc/docker/key.json").exists()) == ("1", True)
    assert not file.exists()


def test_without_an_earlier_range_nothing_changes(root: Path) -> None:
    """Another's Docker may need it as it is."""
    engine_settings.put_back(root / "none.json", ENVIRONMENT, root)

    assert (root / FORWARD).read_text() == "1"


@pytest.mark.parametrize("had", [True, False])
def test_it_is_known_whether_docker_was_there_before(root: Path, *, had: bool) -> None:
    """The record shows whether Docker's chains were there before and so belong to another program."""
    assert engine_settings.had_docker(written(root, docker=had)) is had
