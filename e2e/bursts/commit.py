"""The commit of this checkout as a number: the seed of what is random in a run, so that each commit sees something new."""

from __future__ import annotations

import subprocess
from pathlib import Path


def commit_number() -> int:
    """The commit of this checkout as a number; 1 if there is none."""
    argv = ["git", "rev-parse", "--short=7", "HEAD"]
    done = subprocess.run(argv, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return int(done.stdout.strip() or "1", 16) if done.returncode == 0 else 1
