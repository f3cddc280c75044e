"""Driver versions: their branch (418 of "418.87.00") and the CUDA version that came with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

from fake_nvml.errors import CatalogueError

T = TypeVar("T")

_VERSION = re.compile(r"(\d{3})(\.\d{1,4}){1,2}")

# First branch -> CUDA version as NVML writes it (major * 1000 + minor * 10), from the release notes of CUDA.
_CUDA = {
    375: 8000,
    384: 9000,
    390: 9010,
    396: 9020,
    410: 10000,
    418: 10010,
    440: 10020,
    450: 11000,
    455: 11010,
    460: 11020,
    465: 11030,
    470: 11040,
    495: 11050,
    510: 11060,
    515: 11070,
    520: 11080,
    525: 12000,
    530: 12010,
    535: 12020,
    545: 12030,
    550: 12040,
    555: 12050,
    560: 12060,
    565: 12070,
    570: 12080,
    575: 12090,
    580: 13000,
}


def branch(driver: str) -> int:
    """The branch of a driver version. Raises CatalogueError where the text is none."""
    match = _VERSION.fullmatch(driver)
    if match is None:
        raise CatalogueError(f"driver {driver!r} is no driver version; write it as 418.87 or 535.104.05")
    return int(match[1])


def at_branch(steps: Mapping[int, T], wanted: int) -> T | None:
    """The step of a table "first branch -> value" that holds at a branch; None before the first."""
    reached = [first for first in steps if first <= wanted]
    return steps[max(reached)] if reached else None


def cuda_version(driver: str) -> int:
    """The CUDA version of a driver, 12020 for 12.2. Raises CatalogueError for drivers before 375."""
    found = at_branch(_CUDA, branch(driver))
    if found is None:
        raise CatalogueError(f"driver {driver} is older than any that can be simulated; the first is {min(_CUDA)}")
    return found
