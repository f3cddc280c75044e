"""Commands that run to their end."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from clusters.processes import commands


class Ended(NamedTuple):
    """A command that has ended."""

    code: int
    output: str
    errors: str

    @property
    def said(self) -> str:
        """All that it printed."""
        return self.output + self.errors


async def run(*argv: str, folder: Path | None = None, variables: Mapping[str, str] = {}) -> Ended:
    """Run a command to its end, with these variables beside those of this process."""
    code, output, errors = await commands.run_short(argv, {**os.environ, **variables}, folder)
    return Ended(code, output.decode(errors="replace"), errors.decode(errors="replace"))


async def python(*arguments: str, variables: Mapping[str, str] = {}) -> Ended:
    """Run this Python with these arguments."""
    return await run(sys.executable, *arguments, variables=variables)


def children_of(pid: int) -> list[int]:
    """The processes that a process has started and that run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found
