"""``python -m clusters.kind.program_images.compiled_images FOLDER``: what the images need of a C compiler, put into a folder.

``libraries/<era>/libnvidia-ml.so.1`` of the simulated cards, and ``player``, the whole file system of the player's image. Needs
only ``fake_nvml``, so that a build stage can run it too.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from fake_nvml.core.c_source import header
from fake_nvml.fake_nvml_errors import FakeNvmlError
from fake_nvml.native import build
from fake_nvml.native.compiler import Compiler, CompilerError, find_compiler

SOURCES: Final = Path(__file__).parent / "player"
# Names under which a manifest may call it, as a container's command; the shells and the plain ones of behaviour files.
NAMES: Final = ("bash", "echo", "env", "exit", "false", "kill", "printenv", "sh", "sleep", "true")
_FLAGS: Final = ("-std=gnu11", "-O2", "-s", "-static", "-Wall", "-Wextra", "-I.")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 when all is there, 1 without a compiler, 2 for a call that makes no sense."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if len(arguments) != 1 or arguments[0].startswith("-"):
        sys.stderr.write(f"{__doc__}")
        return 0 if arguments in (["-h"], ["--help"]) else 2
    try:
        compile_all(Path(arguments[0]), dict(os.environ))  # noqa: TID251  # this is a program's main
    except FakeNvmlError as error:
        sys.stderr.write(f"compiled: {error}\n")
        return 1
    return 0


def compile_all(target: Path, environment: Mapping[str, str]) -> None:
    """Compile what is missing in the caches and lay it into ``target``. Raises CompilerError."""
    shutil.copytree(build.ensure(environment), target / "libraries", dirs_exist_ok=True)
    compile_player(find_compiler(environment), target / "player" / "bin")


def compile_player(compiler: Compiler, folder: Path) -> None:
    """The static program in a folder, with a link for each command. Raises CompilerError, which names what the host lacks."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gs-player-") as work:
        for name, text in player_sources():
            (Path(work) / name).write_text(text)
        parts = sorted(name for name, _ in player_sources() if name.endswith(".c"))
        target = ["-target", f"{os.uname().machine}-linux-musl"] if "ziglang" in compiler.command else []
        try:
            compiler.run([*target, *_FLAGS, *parts, "-o", str(folder.absolute() / "player")], Path(work))
        except CompilerError as error:
            raise CompilerError(
                f"{error}; a static C library is needed (Debian: libc6-dev), or `pip install ziglang` and CC="
                f'"{sys.executable} -m ziglang cc"'
            ) from error
    for name in NAMES:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to("player")


def player_sources() -> Iterator[tuple[str, str]]:
    """Name and text of each source, with the layout of the state file, and how a process holds memory, as fake_nvml has them."""
    yield "state_file.h", header()
    yield from ((name, build.source_text(name)) for name in build.HELD_SOURCES)
    for path in sorted(SOURCES.glob("*.[ch]")):
        yield path.name, path.read_text(encoding="utf-8")


def player_content() -> str:
    """The key of the player's sources, in 12 hexadecimal digits."""
    parts = [*_FLAGS, *NAMES, *(part for source in player_sources() for part in source)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


if __name__ == "__main__":
    sys.exit(main())
