"""Which compiler builds the library."""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

import pytest

from fake_nvml.native.compiler import CompilerError, find_compiler


def program(folder: Path, name: str, text: str = "#!/bin/sh\nexit 0\n") -> Path:
    """An executable file in a folder."""
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def no_zig(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python without the ziglang wheel."""
    real = PathFinder.find_spec

    def without(name: str, *rest: object) -> ModuleSpec | None:
        return None if name == "ziglang" else real(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(PathFinder, "find_spec", without)


def test_the_users_compiler_comes_first_with_its_options(tmp_path: Path) -> None:
    """CC may have options."""
    mine = program(tmp_path, "mycc")
    program(tmp_path, "gcc")

    found = find_compiler({"CC": "mycc -m64", "PATH": str(tmp_path)})

    assert found.command == (str(mine), "-m64")


def test_the_systems_compiler_is_found_on_the_path(tmp_path: Path) -> None:
    """A clang on the path does as well as a gcc."""
    clang = program(tmp_path, "clang")

    assert find_compiler({"PATH": str(tmp_path)}).command == (str(clang),)


def test_zig_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python package of zig has a compiler, which is used if there is no other."""
    (tmp_path / "ziglang").mkdir()
    (tmp_path / "ziglang" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()

    assert find_compiler({"PATH": str(tmp_path)}).command == (sys.executable, "-m", "ziglang", "cc")


@pytest.mark.usefixtures("no_zig")
def test_without_any_it_says_what_to_install(tmp_path: Path) -> None:
    """The error names gcc, clang and zig."""
    with pytest.raises(CompilerError, match="install gcc or clang, or `pip install ziglang`"):
        find_compiler({"PATH": str(tmp_path)})


def test_a_compiler_that_is_not_there_is_named(tmp_path: Path) -> None:
    """No other one is taken in its place."""
    program(tmp_path, "gcc")

    with pytest.raises(CompilerError, match="CC is nocc"):
        find_compiler({"CC": "nocc", "PATH": str(tmp_path)})


def test_what_the_compiler_says_is_passed_on(tmp_path: Path) -> None:
    """The error has the stderr of the compiler."""
    program(tmp_path, "cc", "#!/bin/sh\necho 'no room on device' >&2\nexit 1\n")

    with pytest.raises(CompilerError, match="no room on device"):
        find_compiler({"PATH": str(tmp_path)}).run(["-c", "x.c"], tmp_path)


def test_a_compiler_that_cannot_run_is_named(tmp_path: Path) -> None:
    """The error is not Python's."""
    program(tmp_path, "cc", "")
    compiler = find_compiler({"PATH": str(tmp_path)})
    (tmp_path / "cc").unlink()

    with pytest.raises(CompilerError, match="did not run"):
        compiler.run([], tmp_path)


def test_another_compiler_on_the_same_path_is_another(tmp_path: Path) -> None:
    """A changed file changes the identity."""
    program(tmp_path, "cc")
    before = find_compiler({"PATH": str(tmp_path)})
    program(tmp_path, "cc", "#!/bin/sh\nexit 0 # newer\n")

    assert find_compiler({"PATH": str(tmp_path)}).identity != before.identity
