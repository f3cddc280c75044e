"""Building the library once, for every era, whole or not at all, by the compiler of the machine."""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

import pytest

from fake_nvml.core.c_source import MARKER, MARKER_TEXT
from fake_nvml.eras import ERAS, symbols
from fake_nvml.native import build
from fake_nvml.native.build import LIBRARY, ensure, library_folder
from fake_nvml.native.compiler import CompilerError, find_compiler
from tests.fake_nvml.native.test_real_libraries import REAL, exported


@pytest.mark.parametrize("era", ERAS)
def test_each_era_exports_what_its_driver_had_and_nothing_else(built: Path, era: int) -> None:
    """Our marker is the only addition, and a user can find its text in the library.

    An era has what both real lists beside it have, and nothing that is in neither; the newest is the last list.
    """
    library = built / str(era) / LIBRARY
    lists = [int(release.partition(".")[0]) for release in REAL]
    older = symbols(max(read for read in lists if read <= era))
    younger = symbols(min((read for read in lists if read >= era), default=ERAS[-1]))

    assert older & younger <= symbols(era) <= older | younger
    assert exported(library) == symbols(era) | {MARKER}
    marker = (ctypes.c_char * len(MARKER_TEXT)).in_dll(ctypes.CDLL(str(library)), MARKER).value.decode()
    assert marker == MARKER_TEXT
    assert "simulated" in marker


def test_a_second_build_compiles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler here only notes its calls, and makes an empty file of each output. Other sources are another build."""
    script = tmp_path / "cc"
    script.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\nwhile [ $# -gt 1 ]; do [ "$1" = -o ] && : > "$2"; shift; done\n'
    )
    script.chmod(0o755)
    environment = {"CC": str(script), "GPUSHARE_CACHE": str(tmp_path / "cache"), "PATH": os.environ["PATH"]}

    first = ensure(environment)
    calls = (tmp_path / "calls").read_text()

    assert ensure(environment) == first
    assert sorted(path.name for path in first.iterdir()) == sorted(map(str, ERAS))
    assert (tmp_path / "calls").read_text() == calls
    assert list(first.parent.iterdir()) == [first], "nothing half built is left"
    monkeypatch.setattr(build, "source_files", lambda: {"new.c": ""})
    assert ensure(environment) != first


def test_libraries_that_lie_ready_are_taken_without_a_compiler(built: Path, tmp_path: Path) -> None:
    """As in an image, which has none. To build a library that is missing would hide that the image is broken."""
    environment = {"FAKENVML_LIBRARIES": str(built), "CC": "no-such-compiler"}

    assert library_folder("470.57", environment) == built / "470"
    with pytest.raises(CompilerError, match=f"FAKENVML_LIBRARIES: no {tmp_path}/470"):
        library_folder("470.57", {"FAKENVML_LIBRARIES": str(tmp_path)})


def test_the_users_compiler_is_before_the_systems_and_zig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CC may have options; then comes the path, then the package of zig; without any the error names what to install."""
    path = {"PATH": str(tmp_path)}
    real = PathFinder.find_spec

    def without(name: str, *rest: object) -> ModuleSpec | None:
        return None if name == "ziglang" else real(name, *rest)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(PathFinder, "find_spec", without)
        with pytest.raises(CompilerError, match="install gcc or clang, or `pip install ziglang`"):
            find_compiler(path)
    (tmp_path / "ziglang").mkdir()
    (tmp_path / "ziglang" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    assert find_compiler(path).command == (sys.executable, "-m", "ziglang", "cc")

    programs = {name: tmp_path / name for name in ("clang", "mycc")}
    for program in programs.values():
        program.write_text("#!/bin/sh\nexit 0\n")
        program.chmod(0o755)
    assert find_compiler(path).command == (str(programs["clang"]),)
    mine = find_compiler({"CC": "mycc -m64", **path})
    assert mine.command == (str(programs["mycc"]), "-m64")
    programs["mycc"].write_text("no program")
    assert find_compiler({"CC": "mycc", **path}).identity != mine.identity, "another compiler in the same place"
    with pytest.raises(CompilerError, match="did not run"):
        mine.run([], tmp_path)
