"""Small C programs that measures are compared with, compiled on this machine."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Final

_COMPILERS: Final = ("cc", "gcc", "clang")


class CannotCompileError(Exception):
    """The compiler failed; the text has its output."""


async def compiled(source: Path, folder: Path) -> Path | None:
    """The program, in the folder; None if there is no compiler. Raises CannotCompileError."""
    compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if compiler is None:
        return None
    binary = folder / source.stem
    process = await asyncio.create_subprocess_exec(
        compiler, "-O2", "-pthread", "-o", str(binary), str(source), stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()
    if process.returncode != 0:
        raise CannotCompileError(f"{compiler} cannot compile {source.name}:\n{errors.decode(errors='replace')}")
    return binary
