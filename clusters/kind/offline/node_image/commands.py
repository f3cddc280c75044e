"""Run the programs that make a node image; they end with us, whatever ends us."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from clusters.provider import ClusterError

# Lines of a program's output that are shown when it fails.
_TAIL: Final = 20
# ``clusters.processes.tied`` is importable from a checkout.
_CHECKOUT: Final = Path(__file__).parents[4]


def tied(argv: Sequence[str | Path], environment: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Command and environment of a child that the kernel kills when this process dies."""
    path = os.pathsep.join(filter(None, [str(_CHECKOUT), environment.get("PYTHONPATH", "")]))
    prefix = [sys.executable, "-m", "clusters.processes.tied", str(os.getpid())]
    return [*prefix, *map(str, argv)], {**environment, "PYTHONPATH": path}


def run(argv: Sequence[str | Path], environment: Mapping[str, str]) -> str:
    """The output of a program. Raises ClusterError with the end of its output if it failed."""
    command, settings = tied(argv, environment)
    done = subprocess.run(command, env=settings, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-_TAIL:])
        raise ClusterError(f"{' '.join(map(str, argv[:4]))} … ended with {done.returncode}:\n{tail}")
    return done.stdout
