"""Driver versions: their branch (418 of "418.87.00") and the CUDA version that came with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

from fake_nvml.eras import DRIVERS
from fake_nvml.fake_nvml_errors import CatalogueError

T = TypeVar("T")

_VERSION = re.compile(r"(\d{3})(\.\d{1,4}){1,2}")

_CUDA = {branch: int(cuda) for branch, (cuda, _) in DRIVERS.items()}


def complete(driver: str) -> str:
    """A driver version for a bare branch: 418.87.00 for 418. Anything else is answered as it is."""
    if not re.fullmatch(r"[0-9]{3}", driver):
        return driver
    known = DRIVERS.get(int(driver))
    return known[1] if known else f"{driver}.00"


def branch(driver: str) -> int:
    """The branch of a driver version. Raises CatalogueError if the text is none."""
    match = _VERSION.fullmatch(driver)
    if match is None:
        raise CatalogueError(f"driver {driver!r} is no driver version; write it as 418, 418.87 or 535.104.05")
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
