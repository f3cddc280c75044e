"""The version before this one, from the history of this checkout, for tests of the upgrade (docs/install/upgrade.md)."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

# The next release puts the tag of this one in its place.
COMMIT: Final = "d8ddff6c630645d16de5f18cb46e6817eea0999a"
CHECKOUT: Final = Path(__file__).parents[1]


def unpack(folder: Path) -> Path:
    """Its files, in a new folder; the test is skipped if the history does not reach it."""
    known = subprocess.run(["git", "cat-file", "-e", f"{COMMIT}^{{commit}}"], cwd=CHECKOUT, capture_output=True)
    if known.returncode:
        pytest.skip(f"the history of this checkout does not reach {COMMIT[:8]}, the earlier version")
    sources = folder / "earlier"
    sources.mkdir()
    packed = subprocess.run(["git", "archive", COMMIT], cwd=CHECKOUT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x"], cwd=sources, input=packed, check=True)
    return sources
