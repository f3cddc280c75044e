"""Promises of clusters.embedded.apiserver.write_options: what makes no sense is refused before anything is written."""

from __future__ import annotations

import pytest

from clusters.embedded.apiserver.write_options import check
from tests.clusters.embedded.apiserver.samples import refused


@pytest.mark.parametrize(
    ("method", "params", "field"),
    [
        ("POST", {"dryRun": "Some"}, "dryRun"),
        ("PUT", {"fieldManager": "x" * 129}, "fieldManager"),
        ("PATCH", {"fieldManager": "a\nb"}, "fieldManager"),
        ("PATCH", {"force": "true"}, "force"),
    ],
)
def test_an_option_that_makes_no_sense_is_422(method: str, params: dict[str, str], field: str) -> None:
    """With the name of the option."""
    (cause,) = (refused(422, lambda: check(method, params)).details or {})["causes"]
    assert cause["field"] == field


def test_options_that_make_sense_are_taken() -> None:
    """And reads have none."""
    check("POST", {"dryRun": "All", "fieldManager": "kubectl"})
    check("PATCH", {"force": "true"}, applies=True)
    check("GET", {"dryRun": "Some"})
