"""Processes that write their own rows: seen while they live, under the pid that the reader knows, and gone with them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fake_nvml.box import Box
from fake_nvml.native.build import library_folder
from fake_nvml.native.compiler import CompilerError, find_compiler
from fake_nvml.state import State

ROOT = Path(__file__).parents[2]

# A process as a container has it: it writes row 0 of card 1 as pid 1, locks the row's byte, prints a line and waits.
HOLDER = """
import fcntl, os, sys
from pathlib import Path
from fake_nvml.core.fill import MIB
from fake_nvml.core.layout import COMPUTE, SIZE
from fake_nvml.mapping import MappedState
mapped = MappedState.open(Path(sys.argv[1]))
keeper = os.open(sys.argv[1], os.O_RDWR)
with mapped.writing() as content:
    fcntl.lockf(keeper, fcntl.LOCK_EX, 1, SIZE)
    content.header.process_rows = max(content.header.process_rows, 1)
    row = content.processes[0]
    row.card, row.pid, row.held, row.memory, row.name, row.kind = 1, 1, 1, 700 * MIB, b"held", COMPUTE
print("held", flush=True)
sys.stdin.read()
"""

# A program on the C library: card 1's memory in use in MiB, and the pids of its processes.
READER = """
import ctypes, sys, pynvml
pynvml.nvmlLib = ctypes.CDLL(sys.argv[1])
pynvml.nvmlInit()
card = pynvml.nvmlDeviceGetHandleByIndex(1)
print(pynvml.nvmlDeviceGetMemoryInfo(card).used >> 20, [row.pid for row in pynvml.nvmlDeviceGetComputeRunningProcesses(card)])
"""

Hold = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def state(state_path: Path) -> Iterator[State]:
    with State.create(state_path, Box.load("t4x2", seed="node", driver="535")) as created:
        yield created


@pytest.fixture
def hold(state: State) -> Iterator[Hold]:
    """Start a holder, perhaps in front of it another program, and wait until it holds."""
    with ExitStack() as stack:

        def begin(*before: str) -> subprocess.Popen[str]:
            argv = [*before, sys.executable, "-c", HOLDER, str(state.path)]
            process = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            stack.callback(_end, process)
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            return process

        yield begin


def _end(process: subprocess.Popen[str]) -> None:
    """Kill a process and wait for its end."""
    process.kill()
    process.communicate()


def test_a_holder_is_a_process_of_its_card(state: State, hold: Hold) -> None:
    """A holder is shown with its memory and under its own pid, whatever pid it wrote."""
    process = hold()
    card = state.cards()[1]

    assert card.used_mib == 700
    assert [(row.pid, row.name, row.mib) for row in card.processes] == [(process.pid, "held", 700)]


def test_a_holder_in_a_pid_namespace_has_the_pid_outside(state: State, hold: Hold) -> None:
    """The state shows host pids, as a driver does: the kernel translates the lock's owner for each reader."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("a pid namespace needs root and unshare")
    hold("unshare", "--pid", "--fork", "--kill-child")
    (row,) = state.cards()[1].processes

    assert row.pid != 1
    assert HOLDER.encode() in Path(f"/proc/{row.pid}/cmdline").read_bytes()


def test_a_killed_holder_gives_its_memory_back(state: State, hold: Hold) -> None:
    """A killed holder cannot remove its row; readers pass over that row, and the next writer has its room."""
    _end(hold())

    assert (state.cards()[1].used_mib, state.cards()[1].processes) == (0, ())
    state.add_process(state.cards()[1].uuid, 4711, 14500, "next")
    assert [row.pid for row in state.cards()[1].processes] == [4711]


def test_no_other_user_removes_or_replaces_a_holder(state: State, hold: Hold) -> None:
    """Many of them are pid 1 in their container: a row of that pid is not theirs."""
    hold()
    uuid = state.cards()[1].uuid

    assert not state.remove_process(uuid, 1)
    state.add_process(uuid, 1, 10, "other")
    assert state.cards()[1].used_mib == 710


def test_the_library_in_c_sees_what_python_sees(state: State, hold: Hold) -> None:
    """A holder's memory and pid, and nothing of it once it was killed."""
    try:
        find_compiler(os.environ)
    except CompilerError as error:
        pytest.skip(str(error))
    library = library_folder("535") / "libnvidia-ml.so.1"
    process = hold()
    settings = {**os.environ, "FAKENVML_STATE": str(state.path)}

    def read() -> str:
        argv = [sys.executable, "-c", READER, str(library)]
        return subprocess.run(argv, env=settings, capture_output=True, text=True, check=True, timeout=300).stdout

    reserved = state.cards()[1].reserved_mib
    assert read() == f"{700 + reserved} [{process.pid}]\n"
    _end(process)
    assert read() == f"{reserved} []\n"
