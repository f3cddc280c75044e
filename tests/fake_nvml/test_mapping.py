"""One state file, several processes: what one writes all see, whole, also if it is killed; a process has its row.

A process in a container writes its own row and holds a lock on it: it is seen under the pid that the reader knows,
and gone with its end. A program on the library of CUDA is such a process.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fake_nvml.box import Box
from fake_nvml.core.layout import SIZE
from fake_nvml.fake_nvml_errors import StateError
from fake_nvml.native.build import library_folder
from fake_nvml.state import State
from fake_nvml.sysfs import folder_of

BOX = "t4x2"
ROOT = Path(__file__).parents[2]
# Takes 700 MiB of card 1, prints a line and waits.
HOLDER = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
device, context, address = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == cuda.cuDeviceGet(ctypes.byref(device), 1) == 0
assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(700 << 20)) == 0
print("held", flush=True)
sys.stdin.read()
"""

Hold = Callable[..., subprocess.Popen[str]]


def start(code: str, path: Path, *arguments: str) -> subprocess.Popen[str]:
    """A Python of its own with ``State`` open as ``state`` and ``sys.argv[2:]``."""
    prelude = "import sys\nfrom pathlib import Path\nfrom fake_nvml.state import State\nstate = State.open(Path(sys.argv[1]))\n"
    command = [sys.executable, "-c", prelude + code, str(path), *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_writers_in_several_processes_lose_nothing_of_each_other(state: State) -> None:
    """Every process that they added is there."""
    code = "for pid in range(int(sys.argv[2]), int(sys.argv[3])): state.add_process(state.cards()[0].uuid, pid, 1, 'p')"
    writers = [start(code, state.path, str(first), str(first + 60)) for first in (1, 61, 121)]
    for writer in writers:
        with writer:
            writer.communicate()
        assert writer.returncode == 0

    assert [row.pid for row in sorted(state.cards()[0].processes, key=lambda row: row.pid)] == list(range(1, 181))


def test_a_writer_in_another_thread_keeps_others_out(state: State) -> None:
    """A write begins after the one before has ended."""
    uuid = state.cards()[0].uuid
    wrote = threading.Event()

    def write() -> None:
        state.set_value(uuid, "utilization", "70")
        wrote.set()

    other = threading.Thread(target=write)
    with state.mapped.writing() as content:
        other.start()
        # Long enough for a writer that is free; one that is held never comes through.
        assert not wrote.wait(0.1)
        assert content.cards[0].utilization == 0
    other.join()

    assert state.cards()[0].utilization == 70


def test_after_a_writer_was_killed_within_a_write_all_goes_on(state: State) -> None:
    """It holds a lock until then; readers do not wait, and the next write makes the file whole."""
    code = """
with state.mapped.writing() as content:
    content.cards[0].utilization = 50
    print(flush=True)
    sys.stdin.read()
"""
    writer = start(code, state.path)
    assert writer.stdout is not None
    with writer, writer.stdout, state.path.open() as file:
        writer.stdout.readline()
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        writer.kill()
        writer.wait()

    assert state.read().header.sequence % 2 == 1
    assert state.cards()[0].utilization == 50
    state.set_value(state.cards()[0].uuid, "utilization", "60")
    with pytest.raises(StateError):
        state.set_value("GPU-no", "utilization", "1")
    assert state.read().header.sequence % 2 == 0
    assert state.cards()[0].utilization == 60


def test_a_file_for_reading_only_can_be_read(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state opened only for reading can be read, and a change of it is refused.

    The test refuses in the kernel's place, because root may write a file of any mode.
    """
    real = os.open

    def open_read_only(path: Path, flags: int, *rest: int) -> int:
        if flags & os.O_RDWR:
            raise PermissionError(13, "Permission denied")
        return real(path, flags, *rest)

    monkeypatch.setattr(os, "open", open_read_only)
    with State.open(state.path) as reader:
        assert len(reader.cards()) == 2
        with pytest.raises(StateError, match="can only be read here"):
            reader.set_value(reader.cards()[0].uuid, "utilization", "1")
    with pytest.raises(StateError, match="closed"):
        reader.cards()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no state file of simulated cards"),
        (b"hello", "no state file of simulated cards"),
        (b"FAKENVML\x06\x00\x00\x00" + bytes(SIZE - 12), "version 6, not 5"),
        (b"FAKENVML\x05\x00\x00\x00" + SIZE.to_bytes(4, "little"), "delete it"),
    ],
    ids=["empty", "text", "newer", "cut off"],
)
def test_another_file_is_refused_and_kept(tmp_path: Path, content: bytes, says: str) -> None:
    """A file that is no state of this version is refused by open and by create, and keeps every byte."""
    path = tmp_path / "file"
    path.write_bytes(content)

    with pytest.raises(StateError, match=says):
        State.open(path)
    with pytest.raises(StateError, match=says):
        State.create(path, Box.load("t4x1", seed="node"))
    with pytest.raises(StateError, match="cannot be opened"):
        State.open(tmp_path)
    with pytest.raises(StateError, match="cannot be written"):
        State.create(path / "state", Box.load("t4x1", seed="node"))

    assert path.read_bytes() == content


def test_a_new_box_in_the_same_file_replaces_the_old_for_all(state: State, state_path: Path) -> None:
    """A state that is open shows the new cards, and no draft is left behind."""
    state.add_process(state.cards()[0].uuid, 100, 1, "player")

    State.create(state_path, Box.load("t4x1", seed="node-2", driver="535.104.05")).close()

    (card,) = state.cards()
    assert (card.total_mib, card.processes, state.driver()) == (15360, (), "535.104.05")
    assert sorted(state.path.parent.iterdir()) == [state.path, folder_of(state.path)]


@pytest.fixture
def hold(state: State) -> Iterator[Hold]:
    """Start a holder, perhaps in front of it another program, and wait until it holds."""
    variables = {"FAKENVML_STATE": str(state.path), "LD_LIBRARY_PATH": str(library_folder(state.driver()))}
    with ExitStack() as stack:

        def begin(*before: str) -> subprocess.Popen[str]:
            argv, pipe = [*before, sys.executable, "-c", HOLDER], subprocess.PIPE
            process = subprocess.Popen(argv, env={**os.environ, **variables}, stdin=pipe, stdout=pipe, text=True)
            stack.callback(_end, process)
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            return process

        yield begin


def _end(process: subprocess.Popen[str]) -> None:
    """Kill a process and wait for its end."""
    process.kill()
    process.communicate()


def test_a_killed_holder_gives_its_memory_back(state: State, hold: Hold, ask: Callable[[], Any]) -> None:
    """Readers see it under its pid while it lives, and pass over its row then; the next writer has its room."""

    def seen() -> list[tuple[int, int]]:
        rows = ask()["cards"][1]["recorded"]["nvmlDeviceGetComputeRunningProcesses"]
        return [(row["pid"], row["usedGpuMemory"] >> 20) for row in rows]

    process = hold()
    assert [(row.pid, row.mib) for row in state.cards()[1].processes] == seen() == [(process.pid, 700)]
    _end(process)

    assert (state.cards()[1].used_mib, state.cards()[1].processes, seen()) == (0, (), [])
    state.add_process(state.cards()[1].uuid, 4711, 14500, "next")
    assert [row.pid for row in state.cards()[1].processes] == [4711]


def test_a_holder_in_a_pid_namespace_has_the_pid_outside(state: State, hold: Hold) -> None:
    """The state shows host pids, as a driver does. Many are pid 1 in their container: that row is not theirs."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("a pid namespace needs root and unshare")
    hold("unshare", "--pid", "--fork", "--kill-child")
    (row,) = state.cards()[1].processes

    assert row.pid != 1
    assert HOLDER.encode() in Path(f"/proc/{row.pid}/cmdline").read_bytes()
    uuid = state.cards()[1].uuid
    assert not state.remove_process(uuid, 1)
    state.add_process(uuid, 1, 10, "other")
    assert state.cards()[1].used_mib == 710
