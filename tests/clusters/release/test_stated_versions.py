"""Promises of clusters.release.stated_versions."""

from __future__ import annotations

import re

import pytest

from clusters.release.stated_versions import PLACES, disagreements, version_of
from gpushare import __version__
from tests.tracked_files import ROOT

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
