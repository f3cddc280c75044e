"""The lines of a validation for its administrator. pytest's own output, with tracebacks, goes to a log beside the report."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

NAME: Final = "gpushare-console"
LOG_FILE: Final = "validation.log"


class Console:
    """Writes lines to what was standard output before pytest, of which it is a plugin; ``log`` is the file of the rest."""

    __name__ = NAME

    def __init__(self, log: Path, descriptor: int) -> None:
        self.log = log
        self._descriptor = descriptor

    def say(self, line: str) -> None:
        """Write a line; a terminal that is gone does not end the run, which has yet to clean up."""
        with contextlib.suppress(OSError):
            os.write(self._descriptor, f"{line}\n".encode(errors="replace"))


@contextlib.contextmanager
def console(log: Path) -> Iterator[Console]:
    """Output from inside goes to ``log``. Raises OSError."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    descriptor = os.dup(1)
    try:
        with log.open("w") as file, contextlib.redirect_stdout(file):
            yield Console(log, descriptor)
    finally:
        os.close(descriptor)


def console_of(config: pytest.Config) -> Console | None:
    """That of this session; None in a session that a developer reads."""
    found = config.pluginmanager.get_plugin(NAME)
    return found if isinstance(found, Console) else None
