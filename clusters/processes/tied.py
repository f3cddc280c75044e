"""Become another program that the kernel kills when its parent dies: ``python tied.py PARENT CMD ARGS`` (Linux).

A harness that is killed itself must leave no programs behind. The pid stays; so do environment and output. (A
``preexec_fn`` would do the same by forking the harness, which gRPC's threads do not like.)
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def tied(argv: Sequence[str | Path]) -> list[str]:
    """The command that runs another one as a child which ends with this process."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *map(str, argv)]


def die_with_parent() -> None:
    """From now on the kernel kills this process when the one that started it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def main() -> None:
    """Never returns, unless there is no such program."""
    parent, argv = int(sys.argv[1]), sys.argv[2:]
    die_with_parent()
    if os.getppid() != parent:
        sys.exit(f"{argv[0]}: its harness is gone")
    os.execvp(argv[0], argv)  # noqa: S606  # that is what it is for


if __name__ == "__main__":
    main()
