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
