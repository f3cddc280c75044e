"""Promises of clusters.kind.offline.debian; a whole Debian is made by the builds of images alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.kind.offline.debian import mirror
from clusters.provider import ClusterError

APT = """#!/bin/sh
echo "bookworm-updates main http://a.test/debian/"
echo "trixie contrib http://b.test/debian/"
echo "bookworm main http://c.test/debian/"
echo "bookworm main http://d.test/debian/"
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A stand-in for apt-get that lists its sources, first on PATH."""
    (tmp_path / "apt-get").write_text(APT)
    (tmp_path / "apt-get").chmod(0o755)
    return {"PATH": f"{tmp_path}:/usr/bin:/bin"}


def test_the_mirror_is_the_first_source_of_the_release(environment: dict[str, str]) -> None:
    """The mirror is the first source of the release that has the component main."""
    assert mirror("bookworm", environment) == "http://c.test/debian/"


@pytest.mark.parametrize("suite", ["sid", "trixie"], ids=["unknown", "of another component"])
def test_no_source_says_what_to_do(environment: dict[str, str], suite: str) -> None:
    """A published image is the other way."""
    with pytest.raises(ClusterError, match=f"no source of apt has main of {suite}.*--node-image"):
        mirror(suite, environment)
