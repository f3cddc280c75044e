"""Promises of ``python -m clusters.release``: what needs no network is run as the workflow runs it."""

from __future__ import annotations

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
