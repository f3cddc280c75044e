"""A C compiler of this machine: the user's, the system's, else the one in the ``ziglang`` wheel."""

from __future__ import annotations

import hashlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from fake_nvml.fake_nvml_errors import FakeNvmlError

_SYSTEM: Final = ("cc", "gcc", "clang")
# A compiler that takes longer hangs.
_TIMEOUT_SECONDS: Final = 300


class CompilerError(FakeNvmlError):
    """There is no C compiler here, or it refused the source."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """A command that compiles C, and an identity that changes if the program at its path is replaced."""

    command: tuple[str, ...]
    identity: str

    def run(self, arguments: Sequence[str], folder: Path) -> None:
        """Compile or link in a folder. Raises CompilerError with the end of the compiler's output."""
        command = [*self.command, *arguments]
        try:
            done = subprocess.run(
                command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CompilerError(
                f"{shlex.join(command)} did not run: {error}; set CC to a C compiler that does"
            ) from error
        if done.returncode != 0:
            raise CompilerError(f"{shlex.join(command)} failed: {done.stderr.strip()[-2000:]}")


def find_compiler(environment: Mapping[str, str]) -> Compiler:
    """CC of the environment, else cc, gcc or clang on its PATH, else ziglang. Raises CompilerError if none is there."""
    named = shlex.split(environment.get("CC", ""))
    path = environment.get("PATH")
    for candidate in [named] if named else [[name] for name in _SYSTEM]:
        found = shutil.which(candidate[0], path=path)
        if found is not None:
            return Compiler((found, *candidate[1:]), _identity(Path(found)))
    if named:
        raise CompilerError(
            f"CC is {shlex.join(named)}, and there is no such program; set it to a C compiler, or unset it"
        )
    zig = find_spec("ziglang")
    if zig is not None and zig.origin is not None:
        return Compiler((sys.executable, "-m", "ziglang", "cc"), _identity(Path(zig.origin)))
    raise CompilerError("no C compiler: install gcc or clang, or `pip install ziglang`, or set CC")


def _identity(program: Path) -> str:
    """Another compiler in the same place has another date or size; asking for its version would take as long as all the rest."""
    real = program.resolve()
    status = real.stat()
    return hashlib.sha256(f"{real} {status.st_size} {status.st_mtime_ns}".encode()).hexdigest()
