"""The command line: what it promises to people and to programs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from fake_nvml.box import Box
from fake_nvml.changes import CHANGES
from fake_nvml.command_line import parse
from fake_nvml.core.layout import MPS, UNKNOWN64
from fake_nvml.fake_nvml_errors import RealDriverError
from fake_nvml.main import main, run
from fake_nvml.state import State

ROOT = Path(__file__).parents[2]
ASK = "import pynvml; pynvml.nvmlInit(); print(pynvml.nvmlSystemGetDriverVersion(), pynvml.nvmlDeviceGetCount())"
PAGE = """\
3 simulated cards, driver 418.87.00, CUDA 10.1

CARD  NAME                 UUID                                      MEMORY MIB    LOAD  TEMP  POWER       NOTES
0     Tesla T4             GPU-cea3a137-14f6-d659-e204-6571e4435562  1253 / 15079  40%   33 C  9 / 70 W    ECC off, 1 uncorrected errors, exclusive-process
1     Tesla T4             GPU-053e9c12-f5b9-5425-7d5e-aaa8139986fe  -             -     -     -           lost
2     GeForce GTX 1080 Ti  GPU-e7d5bc88-3013-caf4-7663-952e3fce9636  0 / 11178     0%    33 C  31 / 250 W  recovery action 2

CARD  PID   MIB   PROCESS
0     4711  1253  a?b?
0     4712  -     player

nvmlInit answers DRIVER_NOT_LOADED

faults of calls in force: 2; fake-nvml faults lists them

containers have no /dev/nvidia-uvm
"""  # noqa: E501  # as wide as the page
FAULTS = """\
FUNCTION        CARD                                      ANSWERS      AFTER  CALLS LEFT
nvmlDeviceGet*  any                                       as usual     5s     all
nvmlInit        GPU-cea3a137-14f6-d659-e204-6571e4435562  GPU_IS_LOST  0s     3
"""


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


def started(path: Path, *words: str, **environment: str) -> subprocess.Popen[str]:
    """The command in a process of its own."""
    argv, pipe = [sys.executable, "-m", "fake_nvml.main", *words], subprocess.PIPE
    variables = {**os.environ, "FAKENVML_STATE": str(path), "PYTHONPATH": str(ROOT), **environment}
    return subprocess.Popen(argv, env=variables, stdout=pipe, stderr=pipe, text=True)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit code, output and errors."""
    with process:
        out, errors = process.communicate(timeout=300)
    return process.returncode, out, errors


def test_init_makes_the_cards_of_a_box(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints count, driver and file of the cards that it made; a path on the command line wins."""
    other = tmp_path / "other"
    words = ["init", "--box", "t4x2", "--driver", "535.104.05", "--seed", "node-7", "--state", str(other)]
    assert main(words) == 0

    assert (capsys.readouterr().out, path.exists()) == (f"2 simulated cards, driver 535.104.05, in {other}\n", False)
    with State.open(other) as state:
        assert [card.uuid for card in state.cards()] == [card.uuid for card in Box.load("t4x2", seed="node-7").cards]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["init", "--box", "t4x9"], "no box and no file 't4x9'"),
        (["set", "9", "utilization", "50"], "no card '9'"),
        (["process", "remove", "0", "1"], "no process 1 on card 0"),
        (["exec", "--", "no-such-program-here"], "cannot run no-such-program-here"),
        (["limits", "set", "0", "/", "0", "1GB"], "'1GB' is no amount of memory"),
        (["limits", "set", "0", "/", "max", "max"], "a soft limit is an amount"),
        (["limits", "set", "0", "/", "0", "1GiB"], "they need driver 615"),
        (["show", "--state", "/nowhere"], "fake-nvml init makes one"),
        (["record", "-o", "/nowhere/box.yaml", "--library", "/nowhere"], "no NVML to record"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_failure_has_its_reason_and_exit_code_1(
    path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    """The reason is on stderr."""
    main(["init", "--box", "t4x1"])

    assert main(arguments) == 1

    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "required: COMMAND"),
        ("sell", "invalid choice: 'sell' (choose from "),
        ("fail nvmlInit", "required: --with"),
        ("xid 0 many", "invalid int value: 'many'"),
        ("slow nvmlInit --sec 3", "unrecognized arguments: --sec 3"),
        ("exec --", "exec needs a program"),
        ("show -- true", "show takes nothing after --"),
    ],
)
def test_a_wrong_word_is_refused_with_the_usage(line: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The error has the word, or what is missing, and the right form; the exit code is 2."""
    with pytest.raises(SystemExit) as left:
        parse(line.split())

    said = capsys.readouterr().err
    assert (left.value.code, says in said, "--help' for usage" in said) == (2, True, True)
    assert said.startswith("usage: fake-nvml")


@pytest.mark.parametrize("command", [*CHANGES, "init", "show", "record", "exec", "run"])
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` prints a page and exits with 0; the page without a command has a line for it."""
    for words in ([command, "--help"], ["--help"]):
        with pytest.raises(SystemExit) as left:
            parse(words)
        assert left.value.code == 0

    page = capsys.readouterr().out
    assert f"usage: fake-nvml {command}" in page
    assert f"\n    {command}" in page


@pytest.mark.parametrize("command", [["init"], ["exec", "--", "true"]], ids=lambda c: c[0])
def test_beside_a_real_driver_a_path_alone_is_no_purpose(path: Path, tmp_path: Path, command: list[str]) -> None:
    """The variable must be set; then the command runs."""
    words = [command[0], "--state", str(path), *command[1:]]

    with pytest.raises(RealDriverError, match="FAKENVML_STATE"):
        run(parse(words), {}, driver_folder=tmp_path)

    assert not path.exists()
    assert run(parse(["init"]), {"FAKENVML_STATE": str(path)}, driver_folder=tmp_path) == 0


@pytest.mark.parametrize("driver", ["418", "470", "580"])
def test_exec_puts_a_program_on_the_cards(path: Path, driver: str) -> None:
    """The program finds the library of the driver first, has all words after `--`, and keeps its own path.

    The command may be within another: no folder is twice in the loader's path.
    """
    main(["init", "--box", "t4x2", "--driver", driver])
    code = f"{ASK}; import os, sys; print(sys.argv[1:], os.environ['LD_LIBRARY_PATH'].split(':')[1:])"
    again = (sys.executable, "-m", "fake_nvml.main", "exec", "--", sys.executable, "-c", code, "--state", "--")

    status, out, errors = ended(started(path, "exec", "--", *again, LD_LIBRARY_PATH="/a:/b"))

    with State.open(path) as state:
        assert out.splitlines() == [f"{state.driver()} 2", "['--state', '--'] ['/a', '/b']"], errors
    assert (status, errors) == (0, f"fake-nvml: simulated cards for {sys.executable}\n" * 2)


def test_exec_becomes_the_command(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command has the pid of ``exec``, a signal ends it, and it may change its folder before it asks."""
    monkeypatch.chdir(tmp_path)
    main(["init", "--box", "t4x1", "--state", "here"])
    code = f"import os, signal; os.chdir('/'); {ASK}; print(os.getpid(), flush=True); signal.pause()"
    with started(path, "exec", "--state", "here", "--", sys.executable, "-c", code) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["418.87.00 1\n", f"{process.pid}\n"]
        process.terminate()

    assert process.returncode == -signal.SIGTERM


def test_exec_without_a_compiler_says_what_to_install(path: Path, tmp_path: Path) -> None:
    """The program is not started."""
    main(["init"])
    bare = {"PATH": str(tmp_path), "CC": "no-compiler-here", "GPUSHARE_CACHE": str(tmp_path / "cache")}

    status, out, errors = ended(started(path, "exec", "--", sys.executable, "-c", ASK, **bare))

    assert (status, out) == (1, "")
    assert errors.startswith("fake-nvml: CC is no-compiler-here, and there is no such program")


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
        "add --model gtx1080ti --uuid GPU-a --numa 1": "card 0: added GPU-a",
        "slow nvmlDeviceGetName --card 0 --seconds 0.5 --count 2": "nvmlDeviceGetName: slow by 0.5 s",
        "fail nvmlInit --with driver-not-loaded": "nvmlInit: fails with driver-not-loaded",
        "init-fails 9": "nvmlInit answers 9",
        "init-fails none": "nvmlInit answers success",
        "device-file nvidia-uvm missing": "/dev/nvidia-uvm is missing in containers",
        "device-file nvidia-uvm there": "/dev/nvidia-uvm is there in containers",
        "faults clear": "faults cleared: 2",
        "limits clear": "limits cleared: 0",
        "reboot --still-lost": "rebooted",
    }
    for line, answer in said.items():
        capsys.readouterr()
        assert main(line.split()) == 0
        assert capsys.readouterr().out == f"{answer}\n"
    assert {line.split()[0] for line in said} == set(CHANGES)


def happen(path: Path) -> None:
    """A working card with an error, a lost one, an idle one with an advice; and all that can be wrong with a node."""
    main(["init", "--seed", "node-1"])
    assert main(["process", "add", "0", "4711", "1253", "--name", "a\nb\x1b"]) == 0
    for line in (
        "process add 0 4712 1", "set 0 utilization 40", "xid 0 94", "set 0 ecc off", "set 0 compute-mode exclusive-process",
        "lose 1", "xid 2 79", "slow nvmlDeviceGet*", "fail nvmlInit --card 0 --with 15 --count 3", "init-fails 9",
        "device-file nvidia-uvm missing",
    ):  # fmt: skip
        assert main(line.split()) == 0
    with State.open(path) as state, state.mapped.writing() as content:
        row = content.processes[1]
        row.kind, row.memory, row.name = MPS, UNKNOWN64, b"player\xc3"


def test_people_get_a_table(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each card and process, and what is wrong with the node; a text stays on its line."""
    happen(path)
    capsys.readouterr()

    assert main(["show"]) == main(["faults"]) == 0
    assert capsys.readouterr().out == PAGE + FAULTS
    main(["init", "--box", "a100x8"])
    main(["set", "7", "mig", "on"])
    main(["show"])
    assert capsys.readouterr().out.endswith("  MIG on\n")
    main(["faults"])
    assert capsys.readouterr().out == "no faults of calls\n"


def test_limits_of_memory_are_listed_and_shown(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each, in sizes for people; programs get bytes."""
    main(["init", "--box", "t4x2", "--driver", "615", "--seed", "node-1"])
    container = tmp_path / "container"
    container.mkdir()
    main(["limits"])
    assert capsys.readouterr().out.endswith("no limits of memory\n")
    for line in ("1 DIR 0 max", "0 DIR 512MiB 4GiB", "0 DIR 1000 4GiB"):
        assert main(["limits", "set", *line.replace("DIR", str(container)).split()]) == 0
    assert capsys.readouterr().out.endswith(f"card 0: {container} is limited to 4GiB\n")

    main(["show"])
    page = capsys.readouterr().out
    assert main(["limits", "list"]) == 0
    table = capsys.readouterr().out
    assert page.endswith(f"\n\n{table}")
    rows = [line.split()[1:] for line in table.splitlines()[1:]]
    assert rows == [["1000", "4096MiB", "0", str(container)], ["0", "max", "0", str(container)]]
    main(["show", "-o", "json"])
    data = json.loads(capsys.readouterr().out)
    assert data["limits_backend"] == "dmem"
    assert data["memory_limits"][0] == {
        "card": data["cards"][0]["uuid"], "cgroup": container.stat().st_ino, "path": str(container),
        "soft_bytes": 1000, "hard_bytes": 2**32, "used_bytes": 0,
    }  # fmt: skip
    container.rmdir()
    main(["limits", "clear", "--dead"])
    assert capsys.readouterr().out == "limits cleared: 2\n"


def test_programs_get_data(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Units are in the names of the fields; YAML has the same."""
    happen(path)
    capsys.readouterr()
    main(["show", "-o", "yaml"])
    page = capsys.readouterr().out
    main(["show", "-o", "json"])
    data = json.loads(capsys.readouterr().out)

    assert yaml.safe_load(page) == data
    assert (data["simulated"], data["driver"], data["cuda"]) == (True, "418.87.00", "10.1")
    assert (data["init_fails"], data["missing_device_files"]) == ("DRIVER_NOT_LOADED", ["nvidia-uvm"])
    first, second, third = data["cards"]
    assert (first["index"], first["name"], first["serial"]) == (0, "Tesla T4", "8344114671396")
    assert first["uuid"] == "GPU-cea3a137-14f6-d659-e204-6571e4435562"
    assert first["memory"] == {"total_mib": 15079, "used_mib": 1253, "reserved_mib": 0}
    assert first["processes"][1] == {"pid": 4712, "name": "player", "mib": None}
    assert (first["power"], first["temperature"]) == ({"watts": 8.75, "limit_watts": 70.0}, 33)
    assert (first["bus_id"], first["numa"], first["mig"]) == ("00000000:04:00.0", None, False)
    assert first["ecc"] == {"on": False, "corrected": 0, "uncorrected": 1}
    assert (first["lost"], second["lost"], third["ecc"]) == (False, True, None)
    assert (first["fan"], third["fan"], first["refused"]["nvmlDeviceGetFanSpeed"]) == (None, 23, "NOT_SUPPORTED")
    assert data["faults"][1] == {
        "function": "nvmlInit", "card": first["uuid"], "code": "GPU_IS_LOST", "seconds": 0.0, "count": 3,
    }  # fmt: skip
    assert data["faults"][0]["code"] is None


def test_a_recording_is_a_box(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Cards made of it are equal to the recorded ones; bytes that are no UTF-8 become replacement characters."""
    main(["init", "--driver", "470", "--seed", "node-7"])
    content, box = path.read_bytes(), str(tmp_path / "mine.yaml")
    path.write_bytes(content.replace(b"Tesla T4", b"Tesla \xf8\xb3", 1))
    before = shown(capsys)

    status, _, errors = ended(started(path, "record", "-o", box))

    assert (status, errors) == (0, "fake-nvml: 3 simulated cards recorded, driver 470.161.03\n")
    assert main(["init", "--box", box]) == 0
    assert shown(capsys) == before
    assert before[0]["name"] == "Tesla \ufffd\ufffd"


@pytest.mark.parametrize("stopped", [["run"], ["show", "-w", "-o", "json"]], ids=lambda words: words[0])
def test_a_command_that_runs_long_ends_by_ctrl_c(path: Path, tmp_path: Path, stopped: list[str]) -> None:
    """At once, with the exit code of an interrupted program, and with what was done kept."""
    main(["init", "--box", "t4x2"])
    scenario = tmp_path / "long.yaml"
    scenario.write_text("- {do: lose 0}\n- {after: 1000s, do: lose 1}\n")
    with started(path, *stopped, *([str(scenario)] if stopped == ["run"] else [])) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=300)

    assert (process.returncode, "Traceback" in error) == (130, False)
    with State.open(path) as state:
        assert [card.lost for card in state.cards()] == [stopped == ["run"], False]


def test_a_watch_prints_each_change_until_its_reader_ends(path: Path) -> None:
    """A change is printed at the next look; a closed pipe ends the command without a traceback."""
    main(["init", "--box", "a100x8"])
    with started(path, "show", "-w") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "8 simulated cards" in process.stdout.readline()
        main(["remove", "0"])
        while "7 simulated cards" not in process.stdout.readline():
            pass
        process.stdout.close()
        error = process.stderr.read()

    assert (process.returncode, error) == (1, "")
