"""Promises of ``python -m clusters.release``: what needs no network is run as the workflow runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.release.__main__ import main
from gpushare import __version__
from tests.tracked_files import ROOT


def test_the_tag_of_this_version_is_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    """All places agree, and there are notes; the version is printed."""
    assert main(["check", "--tag", f"v{__version__}"]) == 0
    assert capsys.readouterr().out == f"{__version__}\n"


def test_another_tag_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The error has both."""
    assert main(["check", "--tag", "v9.9.9"]) == 1
    assert f"the tag is v9.9.9, and the version {__version__}" in capsys.readouterr().err


def test_the_notes_are_those_of_this_version(capsys: pytest.CaptureFixture[str]) -> None:
    """As the CHANGELOG has them."""
    assert main(["notes"]) == 0
    assert capsys.readouterr().out in (ROOT / "CHANGELOG.md").read_text()


def test_checksums_are_written_beside_the_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The list and what is printed are the same."""
    (tmp_path / "a").write_text("a")

    assert main(["checksums", str(tmp_path)]) == 0
    assert (tmp_path / "SHA256SUMS").read_text() == capsys.readouterr().out != ""


def test_a_folder_without_wheels_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error lists what should be there."""
    assert main(["wheels", str(tmp_path)]) == 1
    assert f"gpushare-scheduler {__version__}" in capsys.readouterr().err
