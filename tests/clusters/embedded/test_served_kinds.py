"""The page of the kinds that the embedded cluster serves."""

from __future__ import annotations

from pathlib import Path

import clusters.embedded
from clusters.api.resources import ALL

PAGE = Path(clusters.embedded.__file__).parent / "README.md"


def test_the_page_lists_exactly_the_kinds_that_are_served() -> None:
    """Each row names kinds and the API versions that have all of them."""
    rows = [line.split("|")[1:3] for line in PAGE.read_text().splitlines() if line.startswith("| ")][1:]
    listed = {
        (version.strip(), kind.strip())
        for kinds, versions in rows
        for kind in kinds.split(",")
        for version in versions.split(",")
    }

    assert listed == {(resource.api_version, resource.kind) for resource in ALL}
