"""The command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fake_nvml.box import Box
from fake_nvml.errors import RealDriverError
from fake_nvml.main import main, parse, run
from fake_nvml.state import State

ROOT = Path(__file__).parents[2]
ASK = "import pynvml; pynvml.nvmlInit(); print(pynvml.nvmlSystemGetDriverVersion(), pynvml.nvmlDeviceGetCount())"


@pytest.fixture
def path(state_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state file that the environment names."""
    monkeypatch.setenv("FAKENVML_STATE", str(state_path))
    return state_path


def shown(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    capsys.readouterr()
    assert main(["show", "-o", "json"]) == 0
    return list(json.loads(capsys.readouterr().out)["cards"])


def execute(path: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """``fake-nvml exec`` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "fake_nvml.main", "exec", "--", *command],
        env={**os.environ, "FAKENVML_STATE": str(path), **environment},
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_init_makes_the_cards_of_a_box(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--box", "t4x2", "--driver", "535.104.05", "--seed", "node-7"]) == 0

    assert capsys.readouterr().out == f"2 simulated cards, driver 535.104.05, in {path}\n"
    with State.open(path) as state:
        assert [card.uuid for card in state.cards()] == [card.uuid for card in Box.load("t4x2", seed="node-7").cards]


def test_a_path_on_the_command_line_wins(path: Path, tmp_path: Path) -> None:
    assert main(["init", "--box", "t4x1", "--state", str(tmp_path / "other")]) == 0

    assert not path.exists()
    assert (tmp_path / "other").exists()


def test_cards_change_by_index_and_by_uuid(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["init", "--box", "t4x2"])
    capsys.readouterr()
    uuid = str(shown(capsys)[1]["uuid"])

    assert main(["set", uuid, "utilization", "50"]) == 0
    assert main(["set", "0", "memory-used", "3000"]) == 0
    assert main(["process", "add", "1", "4711", "1253", "--name", "player"]) == 0

    first, second = shown(capsys)
    assert (first["memory"], second["utilization"]) == (
        {"total_mib": 15079, "used_mib": 3000, "reserved_mib": 0},
        50,
    )
    assert second["processes"] == [{"pid": 4711, "name": "player", "mib": 1253}]
    assert main(["process", "remove", uuid, "4711"]) == 0
    assert shown(capsys)[1]["processes"] == []


def test_an_xid_is_an_event(path: Path) -> None:
    main(["init", "--box", "t4x1"])

    assert main(["xid", "0", "79"]) == 0

    with State.open(path) as state:
        content = state.read()
        assert (content.header.next_event, content.events[0].data) == (1, 79)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["init", "--box", "t4x9"], "no box and no file 't4x9'"),
        (["init", "--driver", "new"], "no driver version"),
        (["set", "9", "utilization", "50"], "no card '9'"),
        (["set", "0", "utilization", "500"], "from 0 to 100"),
        (["process", "add", "0", "1", "99999"], "15079 MiB free"),
        (["process", "remove", "0", "1"], "no process 1 on card 0"),
        (["exec", "--", "no-such-program-here"], "cannot run no-such-program-here"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_fails_says_why_and_exits_with_1(
    path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    main(["init", "--box", "t4x1"])

    assert main(arguments) == 1

    assert says in capsys.readouterr().err


@pytest.mark.parametrize("command", [["show"], ["set", "0", "power", "1"], ["exec", "--", "true"]], ids=lambda c: c[0])
def test_without_a_state_file_every_command_says_init(
    path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    assert main(command) == 1

    assert "fake-nvml init makes one" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [[], ["sell"], ["exec"], ["exec", "--"], ["show", "--", "x"], ["set", "0", "colour", "red"], ["process"]],
    ids=" ".join,
)
def test_usage_errors_exit_with_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as left:
        parse(arguments)

    assert left.value.code == 2


def test_the_command_keeps_its_own_dashes() -> None:
    arguments = parse(["exec", "--state", "/x", "--", "prog", "--state", "y", "--", "-c"])

    assert (arguments.state, arguments.argv) == ("/x", ["prog", "--state", "y", "--", "-c"])


@pytest.mark.parametrize("command", [["init"], ["exec", "--", "true"]], ids=lambda c: c[0])
def test_beside_a_real_driver_a_path_alone_is_no_purpose(path: Path, tmp_path: Path, command: list[str]) -> None:
    command = [command[0], "--state", str(path), *command[1:]]

    with pytest.raises(RealDriverError, match="FAKENVML_STATE"):
        run(parse(command), {}, driver_folder=tmp_path)

    assert not path.exists()


def test_beside_a_real_driver_the_variable_is_a_purpose(path: Path, tmp_path: Path) -> None:
    assert run(parse(["init"]), {"FAKENVML_STATE": str(path)}, driver_folder=tmp_path) == 0


def test_exec_runs_python_on_the_cards(path: Path) -> None:
    main(["init", "--box", "mixed", "--driver", "470.57.02"])

    done = execute(path, sys.executable, "-c", ASK)

    assert (done.returncode, done.stdout) == (0, "470.57.02 3\n")
    assert "simulated" in done.stderr


def test_exec_takes_the_exit_code_of_the_command(path: Path) -> None:
    main(["init"])

    assert execute(path, "sh", "-c", "exit 7").returncode == 7


def test_exec_becomes_the_command(path: Path) -> None:
    """Its pid is the command's, and a signal to it ends the command."""
    main(["init"])
    code = "import os; print(os.getpid(), flush=True); import signal; signal.pause()"
    process = subprocess.Popen(
        [sys.executable, "-m", "fake_nvml.main", "exec", "--", sys.executable, "-c", code],
        env={**os.environ, "FAKENVML_STATE": str(path)},
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) == process.pid
        process.terminate()

    assert process.returncode == -signal.SIGTERM


def test_exec_makes_a_relative_path_absolute(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command may change its folder before it asks."""
    monkeypatch.chdir(tmp_path)
    main(["init", "--box", "t4x1", "--state", "here"])
    code = f"import os; os.chdir('/'); {ASK}"
    done = subprocess.run(
        [sys.executable, "-m", "fake_nvml.main", "exec", "--state", "here", "--", sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert done.stdout == "418.87.00 1\n"
