"""Promises of the C library alone: the place of its state, its refusals, threads, and calls that no careful client makes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fake_nvml.box import Box
from fake_nvml.core.answers import FUNCTIONS
from fake_nvml.native.build import LIBRARY, compile_libraries, source_files
from fake_nvml.native.compiler import find_compiler
from fake_nvml.state import State
from tests.fake_nvml.native.sanitized import sanitized_library

# A program that initialises NVML from the library of its first argument and prints the code and the number of cards.
INIT = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
code, count = library.nvmlInit_v2(), ctypes.c_uint(0)
library.nvmlDeviceGetCount_v2(ctypes.byref(count))
print(code, count.value)
"""


def run(code: str, *arguments: object, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """A Python of its own, without the variables of simulated cards."""
    plain = {key: value for key, value in os.environ.items() if key not in ("FAKENVML_STATE", "LD_LIBRARY_PATH")}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, env={**plain, **environment}, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that takes a folder of ours for the node's: its default state, and its real driver's place."""
    folder = tmp_path_factory.mktemp("node")
    flags = [f'-DDEFAULT_STATE="{folder}/run/state"', f'-DREAL_DRIVER="{folder}/driver"']
    compile_libraries(find_compiler(os.environ), source_files(), folder, folder / "built", flags=flags, eras=[535])
    return folder


@pytest.fixture
def library(elsewhere: Path) -> Iterator[Path]:
    """That library, with nothing left of the test before."""
    found = elsewhere / "built" / "535" / LIBRARY
    yield found
    for path in (elsewhere / "run" / "state", found.with_name("fakenvml.state")):
        path.unlink(missing_ok=True)
    if (elsewhere / "driver").exists():
        (elsewhere / "driver").rmdir()


def show(path: Path, box: str) -> None:
    """Make a state file with the cards of a box."""
    State.create(path, Box.load(box, seed="node")).close()


def test_the_state_is_the_variables_the_nodes_or_the_librarys(library: Path, elsewhere: Path, tmp_path: Path) -> None:
    """The variable wins over the file in `/run`, and that over the library's; without any there is no driver."""
    assert run(INIT, library, environment={}).stdout.split() == ["9", "0"]
    show(library.with_name("fakenvml.state"), "t4x2")
    assert run(INIT, library, environment={}).stdout.split() == ["0", "2"]
    show(elsewhere / "run" / "state", "t4x1")
    assert run(INIT, library, environment={}).stdout.split() == ["0", "1"]
    show(tmp_path / "state", "mixed")
    assert run(INIT, library, environment={"FAKENVML_STATE": str(tmp_path / "state")}).stdout.split() == ["0", "3"]


def test_library_refuses_beside_a_real_driver_unless_wanted(library: Path, elsewhere: Path) -> None:
    """The refusal is one line on stderr with the variable to set."""
    (elsewhere / "driver").mkdir()
    show(elsewhere / "run" / "state", "t4x2")

    refused = run(INIT, library, environment={})
    wanted = run(INIT, library, environment={"FAKENVML_STATE": str(elsewhere / "run" / "state")})

    assert refused.stdout.split() == ["9", "0"]
    assert refused.stderr.count("\n") == 1
    assert "real NVIDIA driver" in refused.stderr
    assert "FAKENVML_STATE" in refused.stderr
    assert wanted.stdout.split() == ["0", "2"]
    assert wanted.stderr == ""


def test_every_function_bears_null_under_sanitizers(tmp_path: Path) -> None:
    """Every function takes null pointers, with a card's handle and without one, and the sanitizers find no fault."""
    show(tmp_path / "state", "mixed")
    code = """
import ctypes, sys
library = ctypes.CDLL("libnvidia-ml.so.1")
null = [ctypes.c_void_p(None)] * 5
assert library.nvmlInit_v2() == 0
handle = ctypes.c_void_p(0)
assert library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0
for name in sys.argv[1:]:
    print(name, getattr(library, name)(*null), getattr(library, name)(handle, *null), flush=True)
print("end")
"""
    names = sorted(set(FUNCTIONS) - {"nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags", "nvmlShutdown", "nvmlErrorString"})
    environment = {"FAKENVML_STATE": str(tmp_path / "state"), **sanitized_library()}

    done = run(code, *names, environment=environment)

    assert done.stdout.splitlines()[-1:] == ["end"], done.stderr[-4000:]
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stderr == ""


def test_threads_may_call_during_init_shutdown_and_wait(tmp_path: Path) -> None:
    """Under sanitizers: a call that runs over the last shutdown keeps what it reads."""
    show(tmp_path / "state", "mixed")
    code = """
import ctypes, threading
library = ctypes.CDLL("libnvidia-ml.so.1")
unknown = []

def expect(code, *known):
    if code not in known:
        unknown.append(code)

def cycle():
    for _ in range(300):
        expect(library.nvmlInit_v2(), 0)
        expect(library.nvmlShutdown(), 0)

def ask():
    memory = (ctypes.c_uint64 * 3)()
    handle = ctypes.c_void_p(0)
    for _ in range(600):
        if library.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(handle)) == 0:
            expect(library.nvmlDeviceGetMemoryInfo(handle, memory), 0, 1)

def wait():
    event = (ctypes.c_uint64 * 5)()
    events, handle = ctypes.c_void_p(0), ctypes.c_void_p(0)
    for _ in range(60):
        if library.nvmlEventSetCreate(ctypes.byref(events)) == 0:
            library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle))
            expect(library.nvmlDeviceRegisterEvents(handle, ctypes.c_ulonglong(8), events), 0, 1, 2)
            expect(library.nvmlEventSetWait_v2(events, event, ctypes.c_uint(1)), 1, 2, 10)
            expect(library.nvmlEventSetFree(events), 0, 1, 2)

threads = [threading.Thread(target=work) for work in (cycle, cycle, ask, ask, wait, wait)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(unknown, library.nvmlDeviceGetCount_v2(None))
"""
    environment = {"FAKENVML_STATE": str(tmp_path / "state"), **sanitized_library()}

    done = run(code, environment=environment)

    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.split("]") == ["[", " 1\n"]
