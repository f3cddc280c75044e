"""Promises of clusters.processes.scratch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HOLDER = """
import sys, time
from clusters.processes.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "inner").mkdir()
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_the_folder_is_gone_when_its_holder_was_killed() -> None:
    """SIGKILL leaves no chance to tidy up; another process does."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert holder.stdout is not None
    assert holder.stdin is not None
    folder = Path(holder.stdout.readline().strip())
    assert (folder / "inner").is_dir()
    holder.kill()
    holder.wait()
    holder.stdout.close()
    holder.stdin.close()

    for _ in range(1000):
        if not folder.exists():
            break
        subprocess.run(["sleep", "0.02"], check=True)
    assert not folder.exists()
