"""The command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fake_nvml.box import Box
from fake_nvml.command_line import parse
from fake_nvml.fake_nvml_errors import RealDriverError
from fake_nvml.main import main, run
from fake_nvml.state import State

ROOT = Path(__file__).parents[2]
ASK = "import pynvml; pynvml.nvmlInit(); print(pynvml.nvmlSystemGetDriverVersion(), pynvml.nvmlDeviceGetCount())"


@pytest.fixture
def path(state_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state file that the environment names."""
    monkeypatch.setenv("FAKENVML_STATE", str(state_path))
    return state_path


def shown(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The cards as JSON shows them."""
    capsys.readouterr()
    assert main(["show", "-o", "json"]) == 0
    return list(json.loads(capsys.readouterr().out)["cards"])


def execute(path: Path, *command: str, layer: str = "auto", **environment: str) -> subprocess.CompletedProcess[str]:
    """``fake-nvml exec`` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "fake_nvml.main", "exec", "--layer", layer, "--", *command],
        env={**os.environ, "FAKENVML_STATE": str(path), **environment},
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_init_makes_the_cards_of_a_box(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints how many cards it made, for which driver, and in which file."""
    assert main(["init", "--box", "t4x2", "--driver", "535.104.05", "--seed", "node-7"]) == 0

    assert capsys.readouterr().out == f"2 simulated cards, driver 535.104.05, in {path}\n"
    with State.open(path) as state:
        assert [card.uuid for card in state.cards()] == [card.uuid for card in Box.load("t4x2", seed="node-7").cards]


def test_a_path_on_the_command_line_wins(path: Path, tmp_path: Path) -> None:
    """The file of the variable is not written."""
    assert main(["init", "--box", "t4x1", "--state", str(tmp_path / "other")]) == 0

    assert not path.exists()
    assert (tmp_path / "other").exists()


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
    """The reason is on stderr."""
    main(["init", "--box", "t4x1"])

    assert main(arguments) == 1

    assert says in capsys.readouterr().err


@pytest.mark.parametrize("command", [["show"], ["set", "0", "power", "1"], ["exec", "--", "true"]], ids=lambda c: c[0])
def test_without_a_state_file_every_command_says_init(
    path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    """The error has the command that makes one."""
    assert main(command) == 1

    assert "fake-nvml init makes one" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [[], ["sell"], ["exec"], ["exec", "--"], ["show", "--", "x"], ["set", "0", "colour", "red"], ["process"]],
    ids=" ".join,
)
def test_usage_errors_exit_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Missing and unknown words both do; the right form is on stderr."""
    with pytest.raises(SystemExit) as left:
        parse(arguments)

    assert (left.value.code, "usage: fake-nvml" in capsys.readouterr().err) == (2, True)


def test_the_command_keeps_its_own_dashes() -> None:
    """Everything after `--` belongs to the program."""
    arguments = parse(["exec", "--state", "/x", "--", "prog", "--state", "y", "--", "-c"])

    assert (arguments.state, arguments.argv) == ("/x", ["prog", "--state", "y", "--", "-c"])


@pytest.mark.parametrize("command", [["init"], ["exec", "--", "true"]], ids=lambda c: c[0])
def test_beside_a_real_driver_a_path_alone_is_no_purpose(path: Path, tmp_path: Path, command: list[str]) -> None:
    """The variable must be set."""
    command = [command[0], "--state", str(path), *command[1:]]

    with pytest.raises(RealDriverError, match="FAKENVML_STATE"):
        run(parse(command), {}, driver_folder=tmp_path)

    assert not path.exists()


def test_beside_a_real_driver_the_variable_is_a_purpose(path: Path, tmp_path: Path) -> None:
    """The command runs."""
    assert run(parse(["init"]), {"FAKENVML_STATE": str(path)}, driver_folder=tmp_path) == 0


def test_exec_becomes_the_command(path: Path) -> None:
    """The command has the pid of ``exec``, and a signal to that pid ends it."""
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
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip

    assert done.stdout == "418.87.00 1\n"


def test_every_change_says_what_it_did(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line names the card and the change."""
    main(["init", "--box", "t4x2"])
    with State.open(path) as state:
        first, second = (card.uuid for card in state.cards())

    said = {
        "set 0 temperature 80": "card 0: temperature is 80",
        "process add 1 4711 1253": "card 1: process 4711 uses 1253 MiB",
        "process remove 1 4711": "card 1: process 4711 is gone",
        "xid 0 31": "card 0: Xid 31 reported",
        f"xid {second} 79 --lose": "card 1: Xid 79 reported, and lost",
        "repair 1": "card 1: repaired",
        "lose 1": "card 1: lost",
        "swap 1 --uuid GPU-b": f"card 1: {second} is now GPU-b",
        "set 1 uuid GPU-c": "card 1: uuid is GPU-c",
        "remove 0": f"card 0: removed {first}",
        "add --model gtx1080ti --uuid GPU-a": "card 0: added GPU-a",
        "slow nvmlDeviceGetName --card 0 --seconds 0.5 --count 2": "nvmlDeviceGetName: slow by 0.5 s",
        "fail nvmlInit --with driver-not-loaded": "nvmlInit: fails with driver-not-loaded",
        "init-fails 9": "nvmlInit answers 9",
        "init-fails none": "nvmlInit answers success",
        "device-file nvidia-uvm missing": "/dev/nvidia-uvm is missing in containers",
        "device-file nvidia-uvm there": "/dev/nvidia-uvm is there in containers",
        "faults clear": "faults cleared: 2",
        "reboot": "rebooted",
    }
    for line, answer in said.items():
        capsys.readouterr()
        assert main(line.split()) == 0
        assert capsys.readouterr().out == f"{answer}\n"


def test_faults_are_listed(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first to happen first; as data they are a part of show."""
    main(["init", "--box", "t4x1"])
    main(["slow", "nvmlDeviceGet*"])
    main(["fail", "nvmlInit", "--with", "UNKNOWN", "--count", "3"])
    capsys.readouterr()
    main(["faults"])

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["nvmlDeviceGet*", "nvmlInit"]


def test_the_table_is_what_is_shown_without_a_wish(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command ``show`` without flags prints the table, which calls the cards simulated."""
    main(["init", "--box", "t4x1"])
    capsys.readouterr()

    assert main(["show"]) == 0

    assert "1 simulated cards, driver 418.87.00" in capsys.readouterr().out


@pytest.mark.parametrize("layer", ["python", "c"])
@pytest.mark.parametrize("driver", ["418", "470", "535", "580"])
def test_exec_puts_a_program_on_either_layer(path: Path, layer: str, driver: str) -> None:
    """The library in C and the one in Python show the same cards."""
    main(["init", "--box", "t4x2", "--driver", driver])
    code = f"{ASK}; print(type(pynvml.nvmlLib).__name__)"

    done = execute(path, sys.executable, "-c", code, layer=layer)

    with State.open(path) as state:
        assert done.stdout.splitlines() == [f"{state.driver()} 2", {"python": "Library", "c": "CDLL"}[layer]]
    assert f"(layer {layer})" in done.stderr


def test_exec_without_a_compiler_goes_on_in_python(path: Path, tmp_path: Path) -> None:
    """If the library in C was asked for, it is an error."""
    main(["init"])
    bare = {"PATH": str(tmp_path), "CC": "no-compiler-here", "GPUSHARE_CACHE": str(tmp_path / "cache")}

    auto = execute(path, sys.executable, "-c", ASK, **bare)
    insisting = execute(path, sys.executable, "-c", ASK, layer="c", **bare)

    assert (auto.returncode, auto.stdout) == (0, "418.87.00 3\n")
    assert "(layer python)" in auto.stderr
    assert insisting.returncode == 1
    assert insisting.stderr.startswith("fake-nvml: ")


def test_a_recording_is_a_box(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Cards made of it are equal to the recorded ones."""
    main(["init", "--box", "mixed", "--driver", "470", "--seed", "node-7"])
    before = shown(capsys)
    box = tmp_path / "mine.yaml"
    # In a process of its own: pynvml keeps its library for the life of one.
    done = subprocess.run(
        [sys.executable, "-m", "fake_nvml.main", "record", "-o", str(box)],
        env={**os.environ, "FAKENVML_STATE": str(path)}, cwd=ROOT, capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip

    assert main(["init", "--box", str(box)]) == 0

    assert done.stderr == "fake-nvml: 3 simulated cards recorded, driver 470.161.03\n"
    assert shown(capsys) == before


@pytest.mark.parametrize("field", ["name", "uuid"])
def test_garbled_texts_of_a_driver_are_shown(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], field: str
) -> None:
    """Bytes that are no UTF-8 become replacement characters in show and record, and the box that is recorded can be used."""
    main(["init", "--box", "t4x2", "--driver", "550"])
    before = shown(capsys)
    content = path.read_bytes()
    at = content.index(before[0][field].encode())
    path.write_bytes(content[:at] + b"\xf8\xb3\x91" + content[at + 3 :])
    box = tmp_path / "mine.yaml"
    command = [sys.executable, "-m", "fake_nvml.main", "record", "-o", str(box)]
    environment = {**os.environ, "FAKENVML_STATE": str(path)}
    subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, timeout=300, check=True)

    assert shown(capsys)[0][field] == "\ufffd\ufffd\ufffd" + before[0][field][3:]
    for output in ("table", "yaml"):
        assert main(["show", "-o", output]) == 0
    assert main(["init", "--box", str(box)]) == 0
    assert "\ufffd" in shown(capsys)[0][field]


@pytest.mark.parametrize("stopped", [["run"], ["show", "-w", "-o", "json"]], ids=lambda words: words[0])
def test_what_runs_long_ends_by_ctrl_c(path: Path, tmp_path: Path, stopped: list[str]) -> None:
    """At once, with the exit code of an interrupted program, and with what was done kept."""
    main(["init", "--box", "t4x2"])
    scenario = tmp_path / "long.yaml"
    scenario.write_text("- {do: lose 0}\n- {after: 1000s, do: lose 1}\n")
    with subprocess.Popen(
        [sys.executable, "-m", "fake_nvml.main", *stopped, *([str(scenario)] if stopped == ["run"] else [])],
        env={**os.environ, "FAKENVML_STATE": str(path)},
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=300)

    assert process.returncode == 130
    assert "Traceback" not in error
    with State.open(path) as state:
        assert [card.lost for card in state.cards()] == [stopped == ["run"], False]


def test_a_reader_that_has_enough_is_no_error_to_report(path: Path) -> None:
    """A closed pipe ends the command without a traceback."""
    main(["init", "--box", "a100x8"])
    with subprocess.Popen(
        [sys.executable, "-m", "fake_nvml.main", "show", "-w"],
        env={**os.environ, "FAKENVML_STATE": str(path)},
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        error = process.stderr.read()

    assert (process.returncode, error) == (1, "")
