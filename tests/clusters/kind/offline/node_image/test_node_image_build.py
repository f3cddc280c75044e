"""Promises of the node image's name; the image itself is built by `make kind` and used by the cases on kind."""

from __future__ import annotations

import re
from pathlib import Path

from clusters.kind.offline.node_image import build
from clusters.kind.offline.node_image.node_programs import minors, modules


def test_a_change_of_pins_or_files_is_another_name(tmp_path: Path) -> None:
    """An image that is there must not hide another program or a unit that was corrected."""
    built = modules(minors()[0])
    unit = tmp_path / "a.service"
    unit.write_text("[Unit]\n")
    before = build.name_of(built, tmp_path)
    unit.write_text("[Service]\n")

    assert re.fullmatch(rf"gpushare/kind-node:{re.escape(built[0].version)}-[0-9a-f]{{12}}", before)
    names = {before, build.name_of(built, tmp_path), build.name_of(built[:-1], tmp_path), build.name_of(built)}
    assert len(names) == 4
    assert build.name_of(built) == build.name_of(built)
