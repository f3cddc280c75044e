"""Promises of clusters.kind.equipment."""

from __future__ import annotations

import os
from pathlib import Path

from clusters.kind.equipment import forget_old


def test_archives_of_former_images_are_removed_the_oldest_first(tmp_path: Path) -> None:
    """The newest and the wanted number before it stay; other files are left alone."""
    for age, name in enumerate(["new.tar", "older.tar", "oldest.tar"]):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    (tmp_path / ".partial").touch()
    forget_old(tmp_path, 1)

    assert sorted(path.name for path in tmp_path.iterdir()) == [".partial", "new.tar", "older.tar"]
