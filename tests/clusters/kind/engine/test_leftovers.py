"""Promises of clusters.kind.engine.leftovers: what is ours is found, and only that."""

from __future__ import annotations

from pathlib import Path

from clusters.kind.engine.leftovers import mount_points

MOUNTS = """22 1 8:1 / / rw - ext4 /dev/root rw
30 22 0:1 / /run/gs/netns rw - tmpfs t rw
31 22 0:1 / /run/gs rw - tmpfs t rw
32 22 0:1 / /run/gsx rw - tmpfs t rw
33 22 0:1 / /data/overlay2/a/merged rw - overlay o rw
34 22 0:1 / /data/a\\040b rw - overlay o rw
"""


def test_mounts_below_a_folder_are_found_the_deepest_first() -> None:
    """The mounts below a folder are found, and none of a folder with a name that only begins alike."""
    found = mount_points(MOUNTS, [Path("/run/gs"), Path("/data")])

    assert found == ["/data/overlay2/a/merged", "/run/gs/netns", "/data/a b", "/run/gs"]
