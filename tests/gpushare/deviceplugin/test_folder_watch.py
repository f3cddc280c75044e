"""Promises of gpushare.deviceplugin.registration about the folder, on real folders."""

from __future__ import annotations

import asyncio
import errno
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gpushare.deviceplugin import registration
from gpushare.deviceplugin.registration import FolderWatch, watching

# Longer than any test may take: a watch that works never waits it out.
_NEVER = 3600.0


async def _quiet(watch: FolderWatch) -> None:
    """Until the watch has nothing more to tell."""
    for _ in range(3):
        await watch.changed(0.01)


@pytest.mark.parametrize("change", ["comes", "goes", "moves in", "moves out"])
async def test_what_comes_or_goes_is_reported_immediately(tmp_path: Path, change: str) -> None:
    """A change in the folder is reported immediately, and not after the longest time between two looks."""
    folder, other = tmp_path / "folder", tmp_path / "other"
    folder.mkdir()
    (folder / "here").touch()
    other.touch()
    changes: dict[str, Callable[[], object]] = {
        "comes": (folder / "new").touch,
        "goes": (folder / "here").unlink,
        "moves in": lambda: other.rename(folder / "other"),
        "moves out": lambda: (folder / "here").rename(tmp_path / "away"),
    }
    with watching(folder) as watch:
        await _quiet(watch)
        told = asyncio.create_task(watch.changed(_NEVER))
        await asyncio.sleep(0)
        changes[change]()
        await asyncio.wait_for(told, 300)


async def test_changes_between_two_waits_are_reported_by_the_next(tmp_path: Path) -> None:
    """A caller that looks first and waits then misses nothing."""
    with watching(tmp_path) as watch:
        await _quiet(watch)
        (tmp_path / "new").touch()
        await asyncio.wait_for(watch.changed(_NEVER), 300)


async def test_the_first_question_ends_at_once(tmp_path: Path) -> None:
    """Events from before the watch are not reported, so the caller looks again."""
    with watching(tmp_path) as watch:
        await asyncio.wait_for(watch.changed(_NEVER), 300)


async def test_a_re_created_folder_is_watched_again(tmp_path: Path) -> None:
    """A folder that is created again is watched again, and a folder that was not there is looked for."""
    folder = tmp_path / "folder"
    with watching(folder) as watch:
        await asyncio.wait_for(watch.changed(0.01), 300)
        for _ in range(2):
            folder.mkdir()
            await _quiet(watch)
            (folder / "new").touch()
            await asyncio.wait_for(watch.changed(_NEVER), 300)
            # Another folder gets another inode as long as this one is kept.
            folder.rename(tmp_path / "kept")
            await _quiet(watch)
            shutil.rmtree(tmp_path / "kept")


async def test_without_inotify_one_looks_more_often_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A kernel allows a user few of them."""

    def refused() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(registration, "Inotify", refused)
    monkeypatch.setattr(registration, "UNTOLD_SECONDS", 0.01)
    with watching(tmp_path) as watch:
        await asyncio.wait_for(watch.changed(_NEVER), 300)

    assert "Too many open files" in caplog.text
