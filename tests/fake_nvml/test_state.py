"""One state file, several processes: what a change leaves, what is refused, and what is left of a writer that was killed.

A process in a container writes its own row and holds a lock on it: it is seen under the pid that the reader knows, and
gone with its end. A program on the library of CUDA is such a process.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fake_nvml.box import Box
from fake_nvml.core.answers import FUNCTIONS
from fake_nvml.core.call_faults import parse_code
from fake_nvml.core.layout import CARDS, FAULTS, LIMITS, PROCESSES, SIZE
from fake_nvml.core.returns import DOES_NOTHING
from fake_nvml.fake_nvml_errors import CardFullError, StateError
from fake_nvml.native.build import library_folder
from fake_nvml.state import State

ROOT = Path(__file__).parents[2]
# Changes a card, prints a line and waits, within a write.
WRITER = """
import sys
from pathlib import Path
from fake_nvml.state import State
with State.open(Path(sys.argv[1])).mapped.writing() as content:
    content.cards[0].utilization = 50
    print(flush=True)
    sys.stdin.read()
"""
# Takes 700 MiB of card 1, prints a line and waits.
HOLDER = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
device, context, address = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == cuda.cuDeviceGet(ctypes.byref(device), 1) == 0
assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(700 << 20)) == 0
print(flush=True)
sys.stdin.read()
"""

Hold = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def hold(state: State) -> Iterator[Hold]:
    """Start a program on the cards, perhaps in front of it another, and wait for its line."""
    variables = {"FAKENVML_STATE": str(state.path), "LD_LIBRARY_PATH": str(library_folder(state.driver()))}
    with ExitStack() as stack:

        def begin(code: str, *before: str) -> subprocess.Popen[str]:
            argv, pipe = [*before, sys.executable, "-c", code, str(state.path)], subprocess.PIPE
            process = subprocess.Popen(
                argv, cwd=ROOT, env={**os.environ, **variables}, stdin=pipe, stdout=pipe, text=True
            )
            stack.callback(_end, process)
            assert process.stdout is not None
            assert process.stdout.readline() == "\n"
            return process

        yield begin


def _end(process: subprocess.Popen[str]) -> None:
    """Kill a process and wait for its end."""
    process.kill()
    process.communicate()


def test_after_a_writer_was_killed_within_a_write_all_goes_on(state: State, hold: Hold) -> None:
    """It holds a lock until then; readers do not wait, and the next write makes the file whole."""
    writer = hold(WRITER)
    with state.path.open() as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    _end(writer)

    assert state.read().header.sequence % 2 == 1
    assert state.cards()[0].utilization == 50
    state.set_value(state.cards()[0].uuid, "utilization", "60")
    assert state.read().header.sequence % 2 == 0
    assert state.cards()[0].utilization == 60


def test_a_killed_holder_gives_its_memory_back(state: State, hold: Hold, ask: Callable[[], Any]) -> None:
    """Readers see it under its pid while it lives, and pass over its row then; the next writer has its room."""

    def seen() -> list[tuple[int, int]]:
        rows = ask()["cards"][1]["recorded"]["nvmlDeviceGetComputeRunningProcesses"]
        return [(row["pid"], row["usedGpuMemory"] >> 20) for row in rows]

    process = hold(HOLDER)
    assert [(row.pid, row.mib) for row in state.cards()[1].processes] == seen() == [(process.pid, 700)]
    _end(process)

    assert (state.cards()[1].used_mib, state.cards()[1].processes, seen()) == (0, (), [])
    state.add_process(state.cards()[1].uuid, 4711, 14500, "next")
    assert [row.pid for row in state.cards()[1].processes] == [4711]


def test_a_holder_in_a_pid_namespace_has_the_pid_outside(state: State, hold: Hold) -> None:
    """The state shows host pids, as a driver does. Many are pid 1 in their container: that row is not theirs."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("a pid namespace needs root and unshare")
    hold(HOLDER, "unshare", "--pid", "--fork", "--kill-child")
    (row,) = state.cards()[1].processes

    assert row.pid != 1
    assert HOLDER.encode() in Path(f"/proc/{row.pid}/cmdline").read_bytes()
    uuid = state.cards()[1].uuid
    assert not state.remove_process(uuid, 1)
    state.add_process(uuid, 1, 10, "other")
    assert state.cards()[1].used_mib == 710


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no state file of simulated cards"),
        (b"FAKENVML\x06\x00\x00\x00" + bytes(SIZE - 12), "version 6, not 5"),
        (b"FAKENVML\x05\x00\x00\x00" + SIZE.to_bytes(4, "little"), "delete it"),
    ],
    ids=["empty", "newer", "cut off"],
)
def test_another_file_is_refused_and_kept(tmp_path: Path, content: bytes, says: str) -> None:
    """A file that is no state of this version is refused by open and by create, and keeps every byte."""
    path = tmp_path / "file"
    path.write_bytes(content)

    with pytest.raises(StateError, match=says):
        State.open(path)
    with pytest.raises(StateError, match=says):
        State.create(path, Box.load("t4x1", seed="node"))

    assert path.read_bytes() == content


def test_a_full_card_refuses_and_says_what_is_free(state_path: Path) -> None:
    """The error of a full card names the free memory, without what the driver keeps, and the card is not changed."""
    with State.create(state_path, Box.load("t4x1", seed="node", driver="535.104.05")) as state:
        (card,) = state.cards()
        state.add_process(card.uuid, 100, 14000, "player")
        state.add_process(card.uuid, 100, 14900, "player")

        with pytest.raises(CardFullError, match="67 MiB free; process 101 asks for 68 MiB"):
            state.add_process(card.uuid, 101, 68, "player")

        assert (state.cards()[0].used_mib, state.read().header.process_rows) == (14900, 1)
    # A card that shares the processor's memory has room for any amount.
    with State.create(state_path, Box.load("gb10", seed="node")) as state:
        state.add_process(state.cards()[0].uuid, 100, 10_000_000, "player")
        assert (state.cards()[0].total_mib, state.cards()[0].used_mib) == (0, 10_000_000)


def test_a_full_table_refuses_and_takes_a_free_row(state_path: Path, tmp_path: Path) -> None:
    """The row of a process that has ended and of a fault that wore off is free; cards and limits have an end, too."""
    with State.create(state_path, Box.load("t4x2", seed="node", driver="615")) as state:
        uuid = state.cards()[0].uuid
        for pid in range(1, PROCESSES + 1):
            state.add_process(uuid, pid, 1, "player")
        with pytest.raises(StateError, match="^no room for another process: 1024 are there; remove some$"):
            state.add_process(uuid, PROCESSES + 1, 1, "player")
        state.remove_process(uuid, 7)
        state.add_process(uuid, PROCESSES + 1, 1, "player")
        for name in sorted(FUNCTIONS - {"nvmlErrorString", "nvmlInit"})[:FAULTS]:
            state.add_fault(name, code=999)
        with pytest.raises(StateError, match="^no room for another fault: 64 are there; fake-nvml faults clear$"):
            state.add_fault("nvmlInit", code=9)
        with state.mapped.writing() as content:
            content.faults[7].count = 0
        state.add_fault("nvmlInit", code=9)
        for number in range(LIMITS):
            (tmp_path / str(number)).mkdir()
            state.set_limit(uuid, tmp_path / str(number), 0, 2**30)
        with pytest.raises(StateError, match="no room for another limit: 256"):
            state.set_limit(uuid, tmp_path, 0, 2**30)
        for _ in range(CARDS - 2):
            state.add_card("t4")
        with pytest.raises(StateError, match="^no room for another card: 64 are there; remove one$"):
            state.add_card("t4")

        assert (len(state.cards()[0].processes), len(state.cards())) == (PROCESSES, CARDS)
        assert state.faults()[7].function == "nvmlInit"


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("colour", "red", "^no key 'colour'; there are memory-used, utilization, .*, recovery-action$"),
        ("utilization", "101", r"^utilization is a whole number from 0 to 100 \(percent of .*\), not '101'$"),
        ("memory-used", "15080", r"^memory-used goes from 0 \(its processes\) to 15079 MiB, not 15080$"),
        ("state", "unhealthy", "^state is healthy or lost, not 'unhealthy'$"),
        ("mig", "on", "^Tesla T4 has no mig$"),
        ("uuid", "MIG-1", "^'MIG-1' is no card's UUID; it begins with GPU-, then"),
        ("uuid", "GPU-053e9c12-f5b9-5425-7d5e-aaa8139986fe", "has the UUID .* already; choose another"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(state: State, key: str, value: str, says: str) -> None:
    """A value that makes no sense is refused, and no card is changed."""
    before = state.cards()

    with pytest.raises(StateError, match=says):
        state.set_value(before[0].uuid, key, value)

    assert state.cards() == before


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda state, uuid: state.add_process(uuid, 0, 1, "player"), "a pid is from 1"),
        (lambda state, uuid: state.post_xid(uuid, 0), "Xids are numbers from 1 on"),
        (lambda state, uuid: state.set_init_return(-1), "return codes are numbers"),
        (lambda state, uuid: state.set_device_file("sda", missing=True), "one of nvidia-uvm$"),
        (lambda state, uuid: state.remove_process("GPU-no", 1), "no card"),
        (lambda state, uuid: state.set_limit(uuid, Path("/"), 0, 2**30), "^no limits on"),
        (lambda state, uuid: state.set_limit(uuid, Path(__file__), 0, 2**30), "no directory of a cgroup"),
        (lambda state, uuid: state.add_fault("nvmlDeviceGetNam", code=9), "is it nvmlDeviceGetName"),
        (lambda state, uuid: state.add_fault("nvmlFoo*", code=9), r"^no function 'nvmlFoo\*' that cards answer$"),
        (lambda state, uuid: state.add_fault("Init", code=9), "^'Init' is no function; write C's name"),
        (lambda state, uuid: state.add_fault("nvmlInit"), "^a fault needs a return code or a delay$"),
        (lambda state, uuid: state.add_fault("nvmlInit", code=-1), "^return codes are numbers from 1 on, not -1$"),
        (lambda state, uuid: state.add_fault("nvmlInit", seconds=float("nan")), "slow by 0 to 86400 seconds"),
        (lambda state, uuid: state.add_fault("nvmlInit", code=9, count=0), "happens 1 to 4294967294 times, not 0"),
    ],
)
def test_a_change_that_is_refused_changes_nothing(state: State, change: Callable[..., object], says: str) -> None:
    """A number outside of its range, a card that is not there, and a name that no function has."""
    before = state.cards()

    with pytest.raises(StateError, match=says):
        change(state, before[0].uuid)

    assert (state.cards(), state.faults()) == (before, [])


def test_another_card_has_nothing_of_the_one_before(state: State) -> None:
    """A card that comes takes the lowest free slot; processes, faults and events of its slot are not its own."""
    first, second, third = (card.uuid for card in state.cards())
    for uuid in (first, second):
        state.add_process(uuid, 100, 500, "a" * 62 + "\udcff\xfc")
        state.add_fault("nvmlDeviceGetName", card=uuid, code=999)
        state.post_xid(uuid, 48, lose=True)
    assert state.cards()[0].processes[0].name == "a" * 62 + "?"
    state.remove_card(second)

    new = state.add_card("t4", numa=1)
    swapped = state.change_uuid(first)
    assert state.add_card("gtx1080ti", uuid="GPU-mine") == "GPU-mine"
    state.change_uuid(third, "GPU-other")

    assert [card.uuid for card in state.cards()] == [swapped, new, "GPU-other", "GPU-mine"]
    shown = [(card.processes, card.lost, card.ecc_uncorrected, card.recovery_action) for card in state.cards()]
    assert (shown, state.faults()) == ([((), False, 0, 0)] * 4, [])
    assert [len(card.serial) for card in state.cards()] == [13, 13, 0, 0]
    assert [card.first_event for card in state.read().cards[:4]] == [2] * 4


@pytest.mark.parametrize(
    ("text", "code"),
    [("15", 15), ("gpu-is-lost", 15), ("NVML_ERROR_UNKNOWN", 999), ("12345", 12345), ("success", DOES_NOTHING)],
)
def test_a_code_is_a_number_or_a_name(text: str, code: int) -> None:
    """Names may be written as NVML, short, or with hyphens."""
    assert parse_code(text) == code
    for wrong in ("0", "-1", "LOST"):
        with pytest.raises(StateError, match=f"^no return code {wrong!r}; a number from 1 on, or one of UNINITIALIZED"):
            parse_code(wrong)
