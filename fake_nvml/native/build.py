"""``python -m fake_nvml.native.build``: build the C library for every driver era, once, into the user's cache.

``<cache>/fake-nvml/<sources and compiler>/<era>/libnvidia-ml.so.1``, with ``libcuda.so.1`` beside it; readers see all eras or
none. A second call finds them and returns immediately.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import pwd
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from fake_nvml.core.c_source import answers, era_header, header, stubs, version_script
from fake_nvml.core.drivers import branch, complete
from fake_nvml.eras import ERAS, era_of
from fake_nvml.fake_nvml_errors import FakeNvmlError
from fake_nvml.native.compiler import Compiler, CompilerError, find_compiler

LIBRARY: Final = "libnvidia-ml.so.1"
# Beside it, the same for each era: as much of CUDA as memory needs.
CUDA_LIBRARY: Final = "libcuda.so.1"
# How a process holds memory of a card, for other programs in C too.
HELD_SOURCES: Final = ("held.c", "held.h", "place.h", "visible.c", "cgroup.c", "cgroup.h")
# As clusters keeps its programs: another place for everything that is built.
CACHE_VARIABLE: Final = "GPUSHARE_CACHE"
# Where the libraries of all eras lie ready, in an image that has no compiler.
READY_VARIABLE: Final = "FAKENVML_LIBRARIES"
# The one source that each era compiles for itself.
_PER_ERA: Final = "era.c"
_OF_CUDA: Final = ("cuda.c", "held.c", "place.c", "visible.c", "cgroup.c")
_ONLY_OF_CUDA: Final = ("cuda.c", "held.c")
_SOURCES: Final = Path(__file__).parent
_COMPILE: Final = ("-std=gnu11", "-O2", "-g1", "-fPIC", "-Wall", "-Wextra", "-pthread", "-I.")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 when the libraries are there, 1 when they could not be built; prints their folder."""
    parser = argparse.ArgumentParser(
        prog="python -m fake_nvml.native.build", description="Build the simulated libnvidia-ml.so.1."
    )
    parser.add_argument("--driver", help="print the folder for this driver alone, for instance 470.57")
    arguments = parser.parse_args(argv)
    environment = dict(os.environ)  # noqa: TID251  # this is a program's main
    try:
        found = library_folder(arguments.driver, environment) if arguments.driver else ensure(environment)
    except FakeNvmlError as error:
        print(f"fake-nvml: {error}", file=sys.stderr)  # noqa: T201  # a command's error
        return 1
    print(found)  # noqa: T201  # a command's answer
    return 0


def library_folder(driver: str, environment: Mapping[str, str] | None = None) -> Path:
    """The folder with the ``libnvidia-ml.so.1`` that is as old as this driver; builds what is missing.

    ``environment`` names the cache and the compiler, by default this process's; if it names FAKENVML_LIBRARIES,
    they lie ready there and nothing is built. Raises FakeNvmlError (CatalogueError for a driver that is none, CompilerError
    without a compiler).
    """
    era = era_of(branch(complete(driver)))
    settings = os.environ if environment is None else environment  # noqa: TID251  # a caller without one
    ready = settings.get(READY_VARIABLE)
    if not ready:
        return ensure(settings) / str(era)
    folder = Path(ready) / str(era)
    if not (folder / LIBRARY).is_file():
        raise CompilerError(f"{READY_VARIABLE}: no {folder / LIBRARY}; unset it, and the library is built")
    return folder


def ensure(environment: Mapping[str, str]) -> Path:
    """The folder of all eras' folders, built if it is missing. Raises CompilerError."""
    compiler, sources = find_compiler(environment), source_files()
    target = cache_folder(environment) / _digest(compiler, sources)
    try:
        if target.is_dir():
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".building-") as draft:
            done = Path(draft) / "done"
            compile_libraries(compiler, sources, Path(draft), done)
            _publish(done, target)
    except OSError as error:
        raise CompilerError(
            f"{target} cannot be written: {error}; set {CACHE_VARIABLE} to a folder that can"
        ) from error
    return target


def source_files() -> dict[str, str]:
    """All source files by name: those in C, and what is generated around them."""
    written = {path.name: path.read_text(encoding="utf-8") for path in sorted(_SOURCES.glob("*.[ch]"))}
    generated = {"state_file.h": header(), "stubs.c": stubs(), "answers.c": answers()}
    for era in ERAS:
        generated |= {f"{era}.map": version_script(era), f"{era}.h": era_header(era)}
    return written | generated


def source_text(name: str) -> str:
    """One of the source files in C."""
    return (_SOURCES / name).read_text(encoding="utf-8")


def compile_libraries(
    compiler: Compiler,
    sources: Mapping[str, str],
    work: Path,
    target: Path,
    *,
    flags: Sequence[str] = (),
    eras: Sequence[int] = ERAS,
) -> None:
    """Compile in ``work`` and put a library for each era below ``target``. ``flags`` go to compiler and linker."""
    for name, text in sources.items():
        (work / name).write_text(text)
    others = (_PER_ERA, *_ONLY_OF_CUDA)
    objects = [name.replace(".c", ".o") for name in sources if name.endswith(".c") and name not in others]
    for name in objects:
        compiler.run([*_COMPILE, *flags, "-c", name.replace(".o", ".c"), "-o", name], work)
    cuda = ["-shared", *_COMPILE, *flags, "-fvisibility=hidden", f"-Wl,-soname,{CUDA_LIBRARY}", "-o", CUDA_LIBRARY]
    compiler.run([*cuda, *_OF_CUDA, "-pthread", "-ldl"], work)
    for era in eras:
        folder = target / str(era)
        folder.mkdir(parents=True)
        link = ["-shared", *_COMPILE, *flags, "-include", f"{era}.h", _PER_ERA, f"-Wl,-soname,{LIBRARY}"]
        link += [f"-Wl,--version-script={era}.map", "-o", str(folder / LIBRARY)]
        compiler.run([*link, *objects, "-pthread", "-ldl"], work)
        shutil.copy(work / CUDA_LIBRARY, folder / CUDA_LIBRARY)


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Where built libraries are kept between checkouts: GPUSHARE_CACHE, else the user's cache."""
    if environment.get(CACHE_VARIABLE):
        return Path(environment[CACHE_VARIABLE]).absolute() / "fake-nvml"
    home = environment.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir
    cache = environment.get("XDG_CACHE_HOME") or Path(home) / ".cache"
    return Path(cache).absolute() / "gpushare" / "fake-nvml"


def _digest(compiler: Compiler, sources: Mapping[str, str]) -> str:
    parts = [*compiler.command, compiler.identity, *_COMPILE]
    parts += [part for name in sorted(sources) for part in (name, sources[name])]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _publish(done: Path, target: Path) -> None:
    """Show a finished build under its name; if another process was quicker, its build is the same."""
    try:
        done.rename(target)
    except OSError:
        if not target.is_dir():
            raise
        shutil.rmtree(done)


if __name__ == "__main__":
    sys.exit(main())
