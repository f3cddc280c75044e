"""Driver versions: their branch (418 of "418.87.00") and the CUDA version that came with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

from fake_nvml.fake_nvml_errors import CatalogueError

T = TypeVar("T")

_VERSION = re.compile(r"(\d{3})(\.\d{1,4}){1,2}")

# First branch -> CUDA version as NVML writes it (major * 1000 + minor * 10), and a release of the branch, which stands for it if
# only the branch was given. From the release notes of CUDA, and from 590 on from public outputs of nvidia-smi.
_BRANCHES = {
    375: (8000, "375.66"),
    384: (9000, "384.145"),
    390: (9010, "390.116"),
    396: (9020, "396.37"),
    410: (10000, "410.104"),
    418: (10010, "418.87.00"),
    440: (10020, "440.33.01"),
    450: (11000, "450.80.02"),
    455: (11010, "455.32.00"),
    460: (11020, "460.32.03"),
    465: (11030, "465.19.01"),
    470: (11040, "470.161.03"),
    495: (11050, "495.29.05"),
    510: (11060, "510.47.03"),
    515: (11070, "515.65.01"),
    520: (11080, "520.61.05"),
    525: (12000, "525.85.12"),
    530: (12010, "530.30.02"),
    535: (12020, "535.104.05"),
    545: (12030, "545.23.08"),
    550: (12040, "550.54.15"),
    555: (12050, "555.42.02"),
    560: (12060, "560.35.03"),
    565: (12070, "565.57.01"),
    570: (12080, "570.124.06"),
    575: (12090, "575.51.03"),
    580: (13000, "580.65.06"),
    590: (13010, "590.48.01"),
    595: (13020, "595.58.03"),
    610: (13030, "610.43.02"),
    615: (13040, "615.71.09"),
}
_CUDA = {branch: cuda for branch, (cuda, _) in _BRANCHES.items()}


def complete(driver: str) -> str:
    """A driver version for a bare branch: 418.87.00 for 418. Anything else is answered as it is."""
    if not re.fullmatch(r"[0-9]{3}", driver):
        return driver
    known = _BRANCHES.get(int(driver))
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
