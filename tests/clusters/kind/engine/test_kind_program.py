"""Promises of clusters.kind.engine.kind_program."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.controlplane.binaries import cache_folder
from clusters.kind.engine.kind_program import fits, kind_module, known_kind


def put(path: Path, version: str) -> Path:
    """A program that prints a version as `kind version -q` does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {version}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("version", "answer"),
    [("0.33.0", True), ("v0.33.4", True), ("0.34.0-alpha", True), ("0.32.9", False), ("1.33.0", False), ("", False)],
)
def test_the_pinned_minor_or_a_newer_one_fits(version: str, *, answer: bool) -> None:
    """An older one cannot start the nodes of a newer Kubernetes."""
    assert fits(version, "v0.33.0") is answer


def test_a_fitting_kind_on_path_is_used(tmp_path: Path) -> None:
    """Before one that we built."""
    users = put(tmp_path / "bin" / "kind", kind_module().version.lstrip("v"))
    environment = {"PATH": str(tmp_path / "bin"), "GPUSHARE_CACHE": str(tmp_path / "cache")}
    put(kind_module().cache(cache_folder(environment)) / "kind", "0.0.0")

    assert known_kind(environment) == users


def test_ours_is_used_where_the_one_on_path_is_too_old(tmp_path: Path) -> None:
    """If the kind on PATH is too old, ours is used, or none if ours is not built yet."""
    put(tmp_path / "bin" / "kind", "0.1.0")
    environment = {"PATH": f"{tmp_path / 'bin'}", "GPUSHARE_CACHE": str(tmp_path / "cache")}
    before = known_kind(environment)
    ours = put(kind_module().cache(cache_folder(environment)) / "kind", kind_module().version)

    assert before is None
    assert known_kind(environment) == ours


def test_a_kind_that_does_not_answer_is_passed_over(tmp_path: Path) -> None:
    """A file that is no program, for instance."""
    put(tmp_path / "bin" / "kind", "").write_text("not a program")

    assert known_kind({"PATH": str(tmp_path / "bin"), "GPUSHARE_CACHE": str(tmp_path / "cache")}) is None
