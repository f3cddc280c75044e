"""The player does in a container what the stand-in's containers do, and its memory goes with it, however it ends."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from clusters.images.image_command import outcome_of
from fake_nvml.state import State

Start = Callable[..., subprocess.Popen[str]]
HELD = 1253


@pytest.fixture
def start(player: Path, cards: State) -> Iterator[Start]:
    """Start the player with words and variables; what still runs afterwards is killed."""
    with ExitStack() as stack:

        def begin(*words: str, before: tuple[str, ...] = (), **variables: str) -> subprocess.Popen[str]:
            settings = {"FAKENVML_STATE": str(cards.path), "NVIDIA_VISIBLE_DEVICES": "0", **variables}
            argv = [*before, str(player / "player"), *words]
            process = subprocess.Popen(argv, env=settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            stack.callback(_end, process)
            return process

        yield begin


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def say(process: subprocess.Popen[str]) -> list[str]:
    """All lines of its log; waits for its end."""
    return process.communicate(timeout=300)[0].splitlines()


def line(process: subprocess.Popen[str], begins: str) -> str:
    """Read its log up to the line that begins so."""
    assert process.stdout is not None
    for text in process.stdout:
        if text.startswith(begins):
            return text.strip()
    raise AssertionError(f"no line {begins!r} before its end")


def used(cards: State) -> list[int]:
    return [card.used_mib for card in cards.cards()]


def test_its_log_begins_with_its_gpu_variables(start: Start) -> None:
    """Sorted, one NAME=value a line, and no other variable among them."""
    variables = {"ALIYUN_COM_GPU_MEM_IDX": "0", "CGPU_DISABLE": "true", "OTHER": "no"}
    process = start(SIMULATED_EXITS_AFTER="0", **variables)

    assert say(process)[:3] == ["ALIYUN_COM_GPU_MEM_IDX=0", "CGPU_DISABLE=true", "NVIDIA_VISIBLE_DEVICES=0"]


@pytest.mark.parametrize("by_uuid", [False, True], ids=["index", "uuid"])
def test_it_holds_memory_of_the_first_card_that_it_sees(start: Start, cards: State, by_uuid: bool) -> None:
    """Named by NVML's index or by UUID, as a process that every reader of the node sees."""
    visible = f"{cards.cards()[1].uuid},0" if by_uuid else "1"
    process = start(NVIDIA_VISIBLE_DEVICES=visible)
    line(process, "holds")

    assert used(cards) == [0, HELD]
    assert [(row.pid, row.name) for row in cards.cards()[1].processes] == [(process.pid, "python")]


def test_a_signal_makes_it_take_more(start: Start, cards: State) -> None:
    """Each SIGUSR1 adds SIMULATED_GROWS_MIB."""
    process = start(SIMULATED_HOLDS_MIB="100", SIMULATED_GROWS_MIB="30")
    line(process, "holds")
    for total in (130, 160):
        process.send_signal(signal.SIGUSR1)
        line(process, "holds 30 MiB more")

        assert used(cards)[0] == total


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGKILL, -9)], ids=["stopped", "killed"])
def test_its_memory_is_free_when_it_has_ended(start: Start, cards: State, number: signal.Signals, code: int) -> None:
    """Told to stop or killed, and the next program on the card has all of it."""
    process = start(SIMULATED_HOLDS_MIB="15000")
    line(process, "holds")
    process.send_signal(number)
    process.communicate()

    assert process.returncode == code
    assert used(cards) == [0, 0]
    line(start(SIMULATED_HOLDS_MIB="15000"), "holds 15000")


def test_its_pid_is_the_one_that_the_reader_knows(start: Start, cards: State) -> None:
    """In a pid namespace it calls itself 1; a reader outside sees the pid that leads to its control group."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("a pid namespace needs root and unshare")
    process = start(before=("unshare", "--pid", "--fork", "--kill-child"))
    line(process, "holds")
    (row,) = cards.cards()[0].processes
    inside = [text.split() for text in Path(f"/proc/{row.pid}/status").read_text().splitlines() if "NSpid" in text]

    assert inside[0][-1] == "1"
    assert Path(f"/proc/{row.pid}/exe").resolve().name == "player"


def test_two_of_them_share_a_card(start: Start, cards: State) -> None:
    """Each has its own row; one that goes leaves the other's."""
    first, second = start(SIMULATED_HOLDS_MIB="100"), start(SIMULATED_HOLDS_MIB="200")
    line(first, "holds")
    line(second, "holds")
    assert used(cards)[0] == 300

    first.terminate()
    first.communicate()

    assert used(cards)[0] == 200


@pytest.mark.parametrize(
    ("visible", "mib", "reason"),
    [
        ("0", "15080", "error: CUDA out of memory: card"),
        ("7", "1", "error: no CUDA-capable device is detected"),
        ("0,7", "1", "error: no CUDA-capable device is detected"),
        ("no-gpu-has-3GiB-to-run", "1", "error: no CUDA-capable device is detected"),
    ],
    ids=["no room", "no such card", "one of them unknown", "refused"],
)
def test_it_fails_with_the_reason_where_it_gets_no_memory(start: Start, visible: str, mib: str, reason: str) -> None:
    """The player ends with CUDA's reason and exit code 1 if it gets no memory, as a CUDA program would."""
    process = start(NVIDIA_VISIBLE_DEVICES=visible, SIMULATED_HOLDS_MIB=mib)

    assert any(text.startswith(reason) for text in say(process))
    assert process.returncode == 1


def test_it_goes_on_without_a_state_file(start: Start, tmp_path: Path) -> None:
    """A manifest of ours runs on a node without simulated cards; the log reports that nothing is held."""
    process = start(FAKENVML_STATE=str(tmp_path / "none"))

    assert "holds nothing" in line(process, "no simulated cards")
    assert line(process, "Created device")
    assert process.poll() is None


def test_it_refuses_a_file_that_is_no_state(start: Start, tmp_path: Path) -> None:
    """The player writes nothing into another program's file."""
    (tmp_path / "other").write_text("precious")
    process = start(FAKENVML_STATE=str(tmp_path / "other"))
    process.communicate()

    assert process.returncode == 1
    assert (tmp_path / "other").read_text() == "precious"


def test_it_ends_by_itself_with_a_code(start: Start) -> None:
    """SIMULATED_EXITS_AFTER and SIMULATED_EXIT_CODE."""
    process = start(SIMULATED_EXITS_AFTER="0.1", SIMULATED_EXIT_CODE="5")
    process.communicate(timeout=300)

    assert process.returncode == 5


def test_it_stops_as_slowly_as_it_was_set(start: Start) -> None:
    """SIMULATED_STOP_SECONDS after SIGTERM, then 143; the log reports the signal."""
    process = start(SIMULATED_STOP_SECONDS="0.4")
    line(process, "Created device")
    began = time.monotonic()
    process.terminate()
    line(process, "asked to stop")
    process.communicate(timeout=300)

    assert time.monotonic() - began >= 0.4
    assert process.returncode == 143


@pytest.mark.parametrize(
    "command",
    [
        "true",
        "false",
        "echo 'two  words' more",
        "env",
        "exit 3",
        "sleep 0.01",
        "sh -c 'echo one; echo \"and two\"; exit 4'",
        "sh -c 'false && echo never; echo always'",
        "sh -c 'true && echo yes\nfalse'",
        "bash -c 'echo a;echo b;'",
        "sh -c 'exit 2; echo never'",
        "/bin/sh -ec 'sleep 0.01s && echo slept'",
    ],
)
def test_a_command_does_what_the_stand_in_says(player: Path, command: str) -> None:
    """The player prints the lines and has the exit code that ``clusters.images.image_command`` gives simulated containers."""
    words, settings = shlex.split(command), {"ONE": "1", "TWO": "a b"}
    expected = outcome_of(words, settings)
    done = subprocess.run([player / "player", *words], env=settings, capture_output=True, text=True, timeout=300)

    assert expected is not None
    assert (tuple(done.stdout.splitlines()), done.returncode) == (expected.prints, expected.code)


def test_it_goes_by_the_names_of_its_commands(player: Path) -> None:
    """The player acts by the name under which it is started, so that a manifest's ``command: [sleep, …]`` works."""
    done = subprocess.run([player / "sh", "-c", "echo here; exit 2"], capture_output=True, text=True)

    assert (done.stdout, done.returncode) == ("here\n", 2)


def test_a_command_that_it_does_not_know_fails(player: Path) -> None:
    """The player ends with 127 at an unknown command, as a shell does, and names that command."""
    done = subprocess.run([player / "player", "sh", "-c", "python3 train.py"], capture_output=True, text=True)

    assert done.returncode == 127
    assert "python3: not a command of this image" in done.stderr


def test_a_sleeper_obeys_at_once(start: Start) -> None:
    """The player ends at SIGTERM with code 143 like the stand-in; a real sleep as process 1 would ignore the signal."""
    process = start("sh", "-c", "sleep infinity; echo never")
    line(process, "NVIDIA_VISIBLE_DEVICES")
    process.terminate()

    assert say(process) == []
    assert process.returncode == 143


def test_it_passes_signals_on(player: Path, start: Start, cards: State) -> None:
    """``kill -USR1 PID`` is there for `kubectl exec`."""
    process = start(SIMULATED_HOLDS_MIB="10", SIMULATED_GROWS_MIB="1")
    line(process, "holds")
    subprocess.run([player / "kill", "-USR1", str(process.pid)], check=True)
    line(process, "holds 1 MiB more")

    assert used(cards)[0] == 11


def test_a_variable_that_is_no_number_is_named(start: Start) -> None:
    """The player names a variable that is no number and ends with 128, as a container that cannot be started."""
    process = start(SIMULATED_HOLDS_MIB="much")

    assert "error: SIMULATED_HOLDS_MIB='much' is not a number" in say(process)
    assert process.returncode == 128
