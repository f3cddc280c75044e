"""The command line: what it promises to people and to programs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fake_nvml.command_line import parse
from fake_nvml.core.layout import MPS, UNKNOWN64
from fake_nvml.fake_nvml_errors import RealDriverError
from fake_nvml.main import CHANGES, main, run
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


@pytest.mark.parametrize("command", [["init"], ["exec", "--", "true"]], ids=lambda c: c[0])
def test_beside_a_real_driver_a_path_alone_is_no_purpose(path: Path, tmp_path: Path, command: list[str]) -> None:
    """The variable must be set; then the command runs."""
    words = [command[0], "--state", str(path), *command[1:]]

    with pytest.raises(RealDriverError, match="FAKENVML_STATE"):
        run(parse(words), {}, driver_folder=tmp_path)

    assert not path.exists()
    assert run(parse(["init"]), {"FAKENVML_STATE": str(path)}, driver_folder=tmp_path) == 0


def test_exec_puts_a_program_on_the_cards(path: Path) -> None:
    """The program finds the library of the driver first, has all words after `--`, and keeps its own path.

    The command may be within another: no folder is twice in the loader's path.
    """
    main(["init", "--box", "t4x2", "--driver", "470"])
    code = f"{ASK}; import os, sys; print(sys.argv[1:], os.environ['LD_LIBRARY_PATH'].split(':')[1:])"
    again = (sys.executable, "-m", "fake_nvml.main", "exec", "--", sys.executable, "-c", code, "--state", "--")

    status, out, errors = ended(started(path, "exec", "--", *again, LD_LIBRARY_PATH="/a:/b"))

    with State.open(path) as state:
        assert out.splitlines() == [f"{state.driver()} 2", "['--state', '--'] ['/a', '/b']"], errors
    assert (status, errors) == (0, f"fake-nvml: simulated cards for {sys.executable}\n" * 2)


def test_every_change_says_what_it_did(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line names the card and the change."""
    main(["init", "--box", "t4x2"])
    with State.open(path) as state:
        first, second = (card.uuid for card in state.cards())

    said = {
        "set 0 temperature 80": "card 0: temperature is 80",
        "set 0 memory-used 100": "card 0: memory-used is 100",
        "process add 1 4711 1253": "card 1: process 4711 uses 1253 MiB",
        "process add 1 4712 unknown": "card 1: process 4712 uses unknown MiB",
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


def test_people_get_a_table_and_programs_get_data(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line for each card, process, fault and limit, and what is wrong with the node; a text stays on its line."""
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
    with State.open(path) as state:
        assert state.device_files([state.cards()[0].uuid]) == ["nvidiactl", "nvidia0"]
    capsys.readouterr()
    assert main(["show"]) == main(["faults"]) == 0
    assert capsys.readouterr().out == PAGE + FAULTS
    main(["init", "--box", "a100x8", "--driver", "615"])
    for line in ("set 7 mig on", f"limits set 1 {tmp_path} 0 max", f"limits set 0 {tmp_path} 1000 4GiB"):
        assert main(line.split()) == 0
    capsys.readouterr()

    assert main(["show"]) == main(["faults"]) == 0
    card, _, rest = capsys.readouterr().out.partition("  MIG on\n")
    assert "NVIDIA A100-SXM4-80GB" in card
    assert re.findall(r" +(1000|0) +(4096MiB|max) +0 +(\S+)\n", rest) == [
        ("1000", "4096MiB", str(tmp_path)), ("0", "max", str(tmp_path)),
    ]  # fmt: skip
    assert rest.endswith("no faults of calls\n")
    assert main(["show", "-o", "json"]) == 0
    assert [one["hard_bytes"] for one in json.loads(capsys.readouterr().out)["memory_limits"]] == [2**32, None]


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
