"""One state file, several processes: what one writes all see, whole, also when it is killed."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fake_nvml.box import Box
from fake_nvml.core.layout import SIZE
from fake_nvml.fake_nvml_errors import StateError
from fake_nvml.state import State
from fake_nvml.sysfs import folder_of

ROOT = Path(__file__).parents[2]


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


def test_a_writer_in_another_process_keeps_others_out(state: State) -> None:
    """The lock is held for as long as the write."""
    writer = start("with state.mapped.writing():\n    print(flush=True)\n    sys.stdin.read()", state.path)
    assert writer.stdin is not None
    assert writer.stdout is not None
    with writer, writer.stdout, state.path.open() as file:
        writer.stdout.readline()
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        writer.stdin.close()
        writer.wait()
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


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
    """Readers do not wait, and the next write makes the file whole."""
    code = """
with state.mapped.writing() as content:
    content.cards[0].utilization = 50
    print(flush=True)
    sys.stdin.read()
"""
    writer = start(code, state.path)
    assert writer.stdout is not None
    with writer, writer.stdout:
        writer.stdout.readline()
        writer.kill()
        writer.wait()

    assert state.read().header.sequence % 2 == 1
    assert state.cards()[0].utilization == 50
    state.set_value(state.cards()[0].uuid, "utilization", "60")
    assert state.read().header.sequence % 2 == 0
    assert state.cards()[0].utilization == 60


def test_a_refused_change_leaves_the_file_readable(state: State) -> None:
    """The write has ended."""
    with pytest.raises(StateError):
        state.set_value("GPU-no", "utilization", "1")

    assert state.read().header.sequence % 2 == 0


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
        assert len(reader.cards()) == 3
        with pytest.raises(StateError, match="can only be read here"):
            reader.set_value(reader.cards()[0].uuid, "utilization", "1")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no state file of simulated cards"),
        (b"hello", "no state file of simulated cards"),
        (b"FAKENVML\x05\x00\x00\x00" + bytes(SIZE - 12), "version 5, not 4"),
        (b"FAKENVML\x04\x00\x00\x00" + SIZE.to_bytes(4, "little"), "delete it"),
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

    assert path.read_bytes() == content


def test_a_folder_is_no_state_file(tmp_path: Path) -> None:
    """The error is that it cannot be opened."""
    with pytest.raises(StateError, match="cannot be opened"):
        State.open(tmp_path)


def test_a_place_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    """The error is that it cannot be written."""
    (tmp_path / "file").write_text("")

    with pytest.raises(StateError, match="cannot be written"):
        State.create(tmp_path / "file" / "state", Box.load("t4x1", seed="node"))


def test_no_draft_is_left_behind(state: State) -> None:
    """The file, and the folder that speaks for a kernel."""
    assert sorted(state.path.parent.iterdir()) == [state.path, folder_of(state.path)]
