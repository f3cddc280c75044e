"""Building the library once, for every era, whole or not at all."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fake_nvml.core.c_source import MARKER, MARKER_TEXT
from fake_nvml.eras import ERAS, symbols
from fake_nvml.native import build
from fake_nvml.native.build import LIBRARY, compile_libraries, ensure, library_folder, main, source_files
from fake_nvml.native.compiler import CompilerError, find_compiler
from tests.fake_nvml.native.test_real_libraries import exported


@pytest.mark.parametrize("era", ERAS)
def test_each_era_exports_what_its_driver_had_and_nothing_else(built: Path, era: int) -> None:
    """Our marker is the only addition."""
    assert exported(built / str(era) / LIBRARY) == symbols(era) | {MARKER}


def test_the_marker_says_that_the_cards_are_simulated(built: Path) -> None:
    """A user can find that text in the library."""
    library = ctypes.CDLL(str(built / str(ERAS[-1]) / LIBRARY))

    assert (ctypes.c_char * len(MARKER_TEXT)).in_dll(library, MARKER).value.decode() == MARKER_TEXT
    assert "simulated" in MARKER_TEXT


@pytest.mark.parametrize(
    ("driver", "era"),
    [("375.66", "390"), ("390.116", "390"), ("410.48", "390"), ("418.87.00", "418"), ("440.33.01", "418"),
     ("470.57.02", "470"), ("535.104.05", "535"), ("535", "535"),
     ("545.23.08", "535"), ("550.54.15", "550"), ("999.1", "615")],
)  # fmt: skip
def test_a_driver_gets_the_newest_era_that_it_has(built: Path, driver: str, era: str) -> None:
    """A driver between two eras gets the older one."""
    folder = library_folder(driver)

    assert folder == built / era
    assert (folder / LIBRARY).is_file()


def test_library_loads_by_name_after_it_was_loaded_by_path(built: Path) -> None:
    """How a program is put on it without a variable: the loader matches the name inside."""
    code = "import ctypes, sys; ctypes.CDLL(sys.argv[1]); print(hasattr(ctypes.CDLL('libnvidia-ml.so.1'), 'fakenvml_version'))"
    done = subprocess.run(
        [sys.executable, "-c", code, built / "535" / LIBRARY], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "True"


def test_the_source_has_no_warnings(tmp_path: Path) -> None:
    """The compiler takes every warning for an error."""
    try:
        compiler = find_compiler(os.environ)
    except CompilerError as error:
        pytest.skip(str(error))

    compile_libraries(compiler, source_files(), tmp_path, tmp_path / "done", flags=["-Werror", "-Wshadow"], eras=[535])

    assert (tmp_path / "done" / "535" / LIBRARY).is_file()


def test_a_second_build_compiles_nothing(tmp_path: Path) -> None:
    """The compiler here only notes that it was called, and makes an empty file of each output."""
    environment = recording_compiler(tmp_path)

    first = ensure(environment)
    calls = (tmp_path / "calls").read_text()
    second = ensure(environment)

    assert first == second
    assert sorted(path.name for path in first.iterdir()) == sorted(map(str, ERAS))
    assert (tmp_path / "calls").read_text() == calls
    assert list(first.parent.iterdir()) == [first], "nothing half built is left"


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """The cache has no half of a build."""
    environment = recording_compiler(tmp_path, fails_at="580.map")

    with pytest.raises(CompilerError):
        ensure(environment)

    assert list((tmp_path / "cache" / "fake-nvml").iterdir()) == []


def test_a_build_that_another_process_finished_first_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The later of two builds does no harm."""
    environment = recording_compiler(tmp_path)
    compile_only = build.compile_libraries

    def compile_late(*arguments: object, **named: object) -> None:
        compile_only(*arguments, **named)  # type: ignore[arg-type]
        monkeypatch.setattr(build, "compile_libraries", compile_only)
        ensure(environment)

    monkeypatch.setattr(build, "compile_libraries", compile_late)

    assert sorted(path.name for path in ensure(environment).iterdir()) == sorted(map(str, ERAS))


def test_other_sources_are_another_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache's folder follows from the content."""
    environment = recording_compiler(tmp_path)
    first = ensure(environment)
    monkeypatch.setattr(build, "source_files", lambda: {"new.c": ""})

    assert ensure(environment) != first


def test_a_cache_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    """The error names the variable that moves it."""
    (tmp_path / "file").write_text("")

    with pytest.raises(CompilerError, match="GPUSHARE_CACHE"):
        ensure({**os.environ, "GPUSHARE_CACHE": str(tmp_path / "file")})


def test_the_cache_is_the_users_unless_set(tmp_path: Path) -> None:
    """The cache is in the home folder's `.cache` if no variable names another folder."""
    home = str(tmp_path)

    assert build.cache_folder({"HOME": home}) == tmp_path / ".cache/gpushare/fake-nvml"
    assert build.cache_folder({"HOME": home, "XDG_CACHE_HOME": "/c"}) == Path("/c/gpushare/fake-nvml")
    assert build.cache_folder({"HOME": home, "GPUSHARE_CACHE": "/g"}) == Path("/g/fake-nvml")


def test_the_command_says_where_the_libraries_are(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints the folder of all libraries, or with a driver the folder of that driver's era."""
    assert main([]) == 0
    assert capsys.readouterr().out.strip() == str(built)
    assert main(["--driver", "470.57"]) == 0
    assert capsys.readouterr().out.strip() == str(built / "470")


def test_the_command_fails_with_a_reason(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that is not there is named, and the exit code is 1."""
    monkeypatch.setenv("CC", "no-such-compiler")

    assert main([]) == 1
    assert "no-such-compiler" in capsys.readouterr().err


def test_libraries_that_lie_ready_are_taken_without_a_compiler(built: Path) -> None:
    """Libraries that lie ready need no compiler, as in an image, which has none."""
    environment = {"FAKENVML_LIBRARIES": str(built), "CC": "no-such-compiler"}

    assert library_folder("470.57", environment) == built / "470"


def test_a_folder_without_the_library_is_named(tmp_path: Path) -> None:
    """Building another one in its place would hide that the image is broken."""
    with pytest.raises(CompilerError, match=f"FAKENVML_LIBRARIES: no {tmp_path}/470"):
        library_folder("470.57", {"FAKENVML_LIBRARIES": str(tmp_path)})


def recording_compiler(folder: Path, fails_at: str = "never") -> dict[str, str]:
    """Variables that name a compiler which notes its calls, and fails at one of them."""
    script = folder / "cc"
    script.write_text(
        "#!/bin/sh\n"
        f'echo "$@" >> {folder}/calls\n'
        f'case "$*" in *{fails_at}*) exit 1;; esac\n'
        'while [ $# -gt 1 ]; do [ "$1" = -o ] && : > "$2"; shift; done\n'
    )
    script.chmod(0o755)
    return {"CC": str(script), "GPUSHARE_CACHE": str(folder / "cache"), "PATH": os.environ["PATH"]}
