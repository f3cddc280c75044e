"""Commands that run to their end."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


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
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *argv, cwd=folder, env={**os.environ, **variables}, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
    )
    output, errors = await process.communicate()
    assert process.returncode is not None
    return Ended(process.returncode, output.decode(errors="replace"), errors.decode(errors="replace"))


async def python(*arguments: str, variables: Mapping[str, str] = {}) -> Ended:
    """Run this Python with these arguments."""
    return await run(sys.executable, *arguments, variables=variables)
