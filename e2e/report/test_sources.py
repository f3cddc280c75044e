"""Promises of e2e.report.sources."""

from __future__ import annotations

import subprocess
from pathlib import Path

from e2e.report.sources import UNKNOWN, state


def git(folder: Path, *arguments: str) -> None:
    """Run git there, with a fixed author."""
    who = ["-c", "user.name=n", "-c", "user.email=e@example.invalid", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


def test_a_state_is_the_commit_and_its_local_changes(tmp_path: Path) -> None:
    """The same changes are the same state and other changes another one; a checkout without changes has the commit alone."""
    git(tmp_path, "init")
    (tmp_path / "file").write_text("1")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-m", "first")
    clean = state(tmp_path)
    (tmp_path / "file").write_text("2")
    changed = state(tmp_path)
    (tmp_path / "file").write_text("3")

    assert len(clean) == 12
    assert changed.startswith(f"{clean}+")
    assert changed != state(tmp_path)
    (tmp_path / "file").write_text("2")
    assert changed == state(tmp_path)
    (tmp_path / "file").write_text("1")
    (tmp_path / "new").write_text("")
    empty = state(tmp_path)
    assert empty.startswith(f"{clean}+")
    (tmp_path / "new").write_text("something")
    assert state(tmp_path) not in (empty, clean)


def test_outside_of_a_checkout_the_state_is_not_known(tmp_path: Path) -> None:
    """An unpacked archive is no reason to fail."""
    assert state(tmp_path / "none") == UNKNOWN
