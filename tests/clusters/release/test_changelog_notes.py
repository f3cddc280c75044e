"""Promises of clusters.release.changelog_notes."""

from __future__ import annotations

import pytest

from clusters.release.changelog_notes import notes_of

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
