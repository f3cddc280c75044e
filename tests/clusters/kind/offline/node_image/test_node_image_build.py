"""Promises of build; the image itself is built by `make kind-image` and used by the cases on kind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from clusters.kind.offline.node_image import build, node_tree
from clusters.kind.offline.node_image.node_programs import minors, modules

ROOT = Path(__file__).parents[5]


def call(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command, as a user calls it."""
    argv = [sys.executable, "-m", "clusters.kind.offline.node_image.build", *arguments]
    return subprocess.run(
        argv, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def test_name_says_version_and_content() -> None:
    """The image's name holds the version and a digest, and the same content has the same name."""
    built = modules(minors()[0])

    assert re.fullmatch(rf"gpushare/kind-node:{re.escape(built[0].version)}-[0-9a-f]{{12}}", build.name_of(built))
    assert build.name_of(built) == build.name_of(built)


def test_another_pin_is_another_name() -> None:
    """Whichever program it is of."""
    built = modules(minors()[0])

    assert len({build.name_of(built), build.name_of(built[:-1]), build.name_of((built[0], *built[2:]))}) == 3


def test_changed_file_is_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit that was corrected must not be hidden by an image that is there."""
    (tmp_path / "files").mkdir()
    unit = tmp_path / "files/a.service"
    monkeypatch.setattr(build, "_HERE", tmp_path)
    built = modules(minors()[0])
    unit.write_text("[Unit]\n")
    before = build.name_of(built)
    unit.write_text("[Service]\n")

    assert build.name_of(built) != before
    assert node_tree.FILES.is_dir()


def test_unknown_release_is_a_usage_error() -> None:
    """An unknown release is a usage error that names the known releases."""
    done = call("--kubernetes", "1.2")

    assert done.returncode == 2
    assert minors()[0] in done.stderr


def test_no_docker_is_one_clear_line(tmp_path: Path) -> None:
    """If no engine answers, the build fails with one clear line and builds nothing."""
    done = call(DOCKER_HOST=f"unix://{tmp_path}/none.sock", GPUSHARE_CACHE=str(tmp_path))

    assert done.returncode == 1
    assert done.stderr.startswith("kind-image: ")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "node-image").exists()
