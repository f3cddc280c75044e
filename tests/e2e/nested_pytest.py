"""A pytest of a test's own, on files in a folder, as a person starts it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[2]


def run_pytest(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run it on all files of the folder, in an environment that has the checkout and nothing of the outer run."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(folder), *words, str(folder)]
    variables = {"PYTHONPATH": str(_ROOT), "PATH": str(Path(sys.executable).parent)}
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=500)
