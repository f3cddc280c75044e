"""The library of each era beside NVIDIA's own of that branch: the same functions, the same texts, the same without a driver.

The functions and texts of the real libraries are kept here as digests.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from fake_nvml.box import Box
from fake_nvml.core.c_source import MARKER
from fake_nvml.core.returns import Code
from fake_nvml.eras import VERSION_BEFORE_INIT_SINCE
from fake_nvml.native.build import LIBRARY
from fake_nvml.state import State

# Undocumented, and needed by nvidia-smi alone.
LEFT_OUT = "nvmlInternalGetExportTable"
# Release -> digest of the functions without LEFT_OUT, and of the texts of CODES, a line each.
REAL = {
    "390.157": ("110e899fc997847b", "309dd615f23e201c"),
    "418.226.00": ("1eb21315ef992107", "931584e6b8d8a0e5"),
    "450.248.02": ("6b9b5b0152553008", "839fe8549c80e421"),
    "460.106.00": ("0a778b3708bdfc5b", "839fe8549c80e421"),
    "470.256.02": ("dab29f5d5c4c0eb9", "167bda39fe7fb9ce"),
    "525.147.05": ("6e2dfbc62b818749", "2e8cf84920f70458"),
    "535.274.02": ("63174cc2e5754f0c", "a8a61a2b18535a3f"),
    "550.163.01": ("051ac910017106f1", "4cd703e7f6130f74"),
}
CODES = (*range(32), 999, 1234)
TEXTS = """
import ctypes, json, sys
library = ctypes.CDLL(sys.argv[1])
library.nvmlErrorString.restype = ctypes.c_char_p
print(json.dumps([library.nvmlErrorString(code).decode() for code in json.loads(sys.argv[2])]))
"""
# The answer of each function, with room for its output, before nvmlInit or after one that failed.
ANSWERS = """
import ctypes, json, sys
library, init, names = sys.argv[1], sys.argv[2] == "after", json.loads(sys.argv[3])
room = ctypes.create_string_buffer(4096)
library = ctypes.CDLL(library)
if init:
    library.nvmlInit_v2()
pointer = ctypes.c_void_p(ctypes.addressof(room))
print(json.dumps({name: getattr(library, name)(pointer, ctypes.c_uint(80), pointer, pointer) for name in names}))
"""


@pytest.fixture(params=REAL)
def release(request: pytest.FixtureRequest) -> str:
    """Each release whose real library was read."""
    return str(request.param)


@pytest.fixture
def library(built: Path, release: str) -> Path:
    """The simulated library of the same branch."""
    return built / release.partition(".")[0] / LIBRARY


@pytest.fixture
def functions(library: Path) -> set[str]:
    """The functions that it exports, without our marker."""
    return exported(library) - {MARKER}


def test_each_era_has_the_real_functions_and_texts(library: Path, functions: set[str], release: str) -> None:
    """The digests are those of the real library."""
    assert (digest(sorted(functions)), digest(ask(TEXTS, library, json.dumps(CODES)))) == REAL[release]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("state", ["no file", "not loaded"])
def test_without_a_driver_it_answers_as_the_real_ones(
    library: Path, functions: set[str], release: str, when: str, state: str, tmp_path: Path
) -> None:
    """Measured on the libraries in REAL; nvmlRetry_NvRmControl, which NVIDIA's own calls use, answers 89 there."""
    path = tmp_path / "state"
    if state == "not loaded":
        with State.create(path, Box.load("gtx1080tix1", seed=None, driver=release)) as cards:
            cards.set_init_return(Code.DRIVER_NOT_LOADED)
    expected = dict.fromkeys(functions, Code.UNINITIALIZED)
    expected |= dict.fromkeys(("nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags"), Code.DRIVER_NOT_LOADED)
    expected["nvmlShutdown"] = Code.SUCCESS
    if int(release.partition(".")[0]) >= VERSION_BEFORE_INIT_SINCE:
        expected["nvmlSystemGetNVMLVersion"] = Code.SUCCESS
    del expected["nvmlErrorString"]  # it answers a text, see above

    assert ask(ANSWERS, library, when, json.dumps(sorted(expected)), state=path) == expected


def exported(library: Path) -> set[str]:
    """The functions that a library offers to the loader."""
    if shutil.which("nm") is None:
        pytest.skip("no nm, which lists the functions of a library; it comes with binutils")
    done = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True)
    return {line.split()[-1] for line in done.stdout.splitlines()}


def digest(lines: Iterable[str]) -> str:
    """A short hash of lines."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def ask(code: str, *arguments: object, state: Path = Path("/nonexistent")) -> Any:
    """A program's JSON answer, in a process of its own."""
    environment = {**os.environ, "FAKENVML_STATE": str(state)}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
