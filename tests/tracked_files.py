"""The files of the repository, as git lists them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent


def tracked() -> list[str]:
    """The files of the repository; a test is skipped if its checkout is no clone."""
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip("this checkout is no clone, so that its files are not known")
    return [name for name in done.stdout.splitlines() if (ROOT / name).is_file()]
