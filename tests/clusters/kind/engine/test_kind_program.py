"""Promises of clusters.kind.engine.kind_program."""

from __future__ import annotations

import pytest

from clusters.kind.engine.kind_program import fits


@pytest.mark.parametrize(
    ("version", "answer"),
    [("0.33.0", True), ("v0.33.4", True), ("0.34.0-alpha", True), ("0.32.9", False), ("1.33.0", False), ("", False)],
)
def test_the_pinned_minor_or_a_newer_one_fits(version: str, *, answer: bool) -> None:
    """An older one cannot start the nodes of a newer Kubernetes."""
    assert fits(version, "v0.33.0") is answer
