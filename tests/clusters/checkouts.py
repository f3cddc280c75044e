"""A second checkout, for tests of what two of them do to each other."""

from __future__ import annotations

import shutil
from pathlib import Path


def copy_checkout(root: Path, target: Path) -> None:
    """The harness of this checkout, copied: a checkout is the folder that the code came from, and a link would lead back."""
    target.mkdir()
    for name in ("e2e", "gpushare", "fake_nvml", "load"):
        (target / name).symlink_to(root / name)
    shutil.copytree(root / "clusters", target / "clusters", ignore=shutil.ignore_patterns("__pycache__"))
