"""The files of a release: what wheels may be among them, and their checksums."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Sequence
from email import message_from_bytes
from pathlib import Path
from typing import Final

from clusters.provider import ClusterError

# `gpushare` on the Python package index is the package of a stranger.
DISTRIBUTIONS: Final = ("fake-nvml", "gpushare-scheduler", "pytest-gpushare")
CHECKSUMS: Final = "SHA256SUMS"


def judge_wheels(folder: Path, version: str) -> list[Path]:
    """The wheels of a folder, which are ours, all of them and in this version. Raises ClusterError."""
    wheels = sorted(folder.glob("*.whl"))
    found = sorted(_named(wheel) for wheel in wheels)
    wanted = [(name, version) for name in DISTRIBUTIONS]
    if found != wanted:
        raise ClusterError(f"{folder}: has the wheels {_listed(found)}, and should have {_listed(wanted)}")
    return wheels


def checksums(folder: Path) -> str:
    """The SHA-256 of each file of a folder, as `sha256sum --check` reads it."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != CHECKSUMS)
    return "".join(f"{digest_of(path)}  {path.name}\n" for path in files)


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _named(wheel: Path) -> tuple[str, str]:
    """Name and version, as its metadata has them."""
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (one for one in packed.namelist() if one.endswith(".dist-info/METADATA") and one.count("/") == 1)
        metadata = message_from_bytes(packed.read(name))
    return metadata["Name"], metadata["Version"]


def _listed(named: Sequence[tuple[str, str]]) -> str:
    return ", ".join(" ".join(one) for one in named) or "none"
