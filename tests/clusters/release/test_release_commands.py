"""Promises of ``python -m clusters.release``, and of what it reads: versions, notes, plugins."""

from __future__ import annotations

import re

import pytest

from clusters.release.__main__ import main
from clusters.release.release_files import PLACES, Plugin, disagreements, notes_of, plugins_of, version_of
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


TEXTS = {name: (ROOT / name).read_text() for name in PLACES}


def test_all_places_state_the_version_of_the_programs() -> None:
    """Package, chart, manifests, pages and CHANGELOG."""
    assert version_of(TEXTS) == __version__
    assert disagreements(TEXTS, __version__) == []


@pytest.mark.parametrize(("name", "pattern"), [(name, one) for name, patterns in PLACES.items() for one in patterns])
def test_each_place_with_another_version_is_found(name: str, pattern: str) -> None:
    """A place that was forgotten is named, with the version that it has."""
    found = re.search(pattern, TEXTS[name], re.DOTALL)
    assert found
    begin, end = found.span(1)
    texts = {**TEXTS, name: f"{TEXTS[name][:begin]}9.9.9{TEXTS[name][end:]}"}

    assert any(line.startswith(f"{name}: ") and "9.9.9" in line for line in disagreements(texts, __version__))


CHANGELOG = """# Changelog

## [Unreleased]

### Added

- later

## [0.10.0] - 2026-02-01

### Wire

- ten

## [0.1.0] - 2026-01-01

### Added

- one

## [0.0.1] - 2025-01-01

### Added
"""


@pytest.mark.parametrize(("version", "notes"), [("0.10.0", "### Wire\n\n- ten\n"), ("0.1.0", "### Added\n\n- one\n")])
def test_the_notes_are_the_section_of_the_version(version: str, notes: str) -> None:
    """Neither its heading nor another section is in them."""
    assert notes_of(CHANGELOG, version) == notes


@pytest.mark.parametrize("version", ["0.2.0", "0.1", "0.0.1"])
def test_without_text_there_are_no_notes(version: str) -> None:
    """A version that the CHANGELOG does not name, and a section of headings alone."""
    assert notes_of(CHANGELOG, version) == ""


def test_krew_gets_the_scripts_that_it_can_link() -> None:
    """Krew puts underscores for dashes, so a program with two dashes in its name is no plugin of it."""
    scripts = {
        "kubectl-inspect-gpushare": "a:main",
        "kubectl-inspect_gpushare": "a:main",
        "kubectl-one": "b:run",
        "x": "c:main",
    }

    assert plugins_of(scripts) == [Plugin("inspect-gpushare", "a:main"), Plugin("one", "b:run")]
