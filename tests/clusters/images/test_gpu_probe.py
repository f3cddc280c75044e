"""The probe runs as text on the simulated libraries and reports each step, or the one that failed."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters.images import gpu_probe
from clusters.images.behaviour import PROBE, probe_arguments, probe_container
from fake_nvml.box import Box
from fake_nvml.native.build import library_folder
from fake_nvml.native.compiler import CompilerError
from fake_nvml.state import State

Line = dict[str, Any]


@pytest.fixture
def cards(tmp_path: Path) -> Iterator[State]:
    with State.create(tmp_path / "state", Box.load("t4x2", seed="node", driver="535")) as state:
        yield state


@pytest.fixture
def variables(cards: State, tmp_path: Path) -> dict[str, str]:
    """Those of a container that sees the second card, as its runtime makes them."""
    try:
        libraries = library_folder(cards.driver(), os.environ)
    except CompilerError as error:
        pytest.skip(f"no library in C: {error}")
    dev, uuid = tmp_path / "dev", cards.cards()[1].uuid
    dev.mkdir()
    for name in cards.device_files([uuid]):
        (dev / name).touch()
    return {
        "FAKENVML_STATE": str(cards.path),
        "FAKENVML_VISIBLE": uuid,
        "LD_LIBRARY_PATH": str(libraries),
        "NVIDIA_VISIBLE_DEVICES": uuid,
        gpu_probe.DEV_VARIABLE: str(dev),
    }


def probe(variables: dict[str, str], *arguments: str) -> tuple[int, list[Line]]:
    """The exit code of the probe's text and its lines."""
    argv = [sys.executable, "-I", "-c", PROBE, *arguments]
    done = subprocess.run(argv, env=variables, capture_output=True, text=True, timeout=300)
    assert done.stderr == "", done.stderr
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("changed", "mib", "says"),
    [
        ({}, 20000, "CUDA_ERROR_OUT_OF_MEMORY"),
        ({"FAKENVML_VISIBLE": "all"}, 1000, "2 cards, not 1"),
        ({"FAKENVML_VISIBLE": "none"}, 1000, "CUDA_ERROR_NO_DEVICE"),
        ({"CUDA_VISIBLE_DEVICES": ""}, 1000, "CUDA_ERROR_NO_DEVICE"),
        ({"LD_LIBRARY_PATH": ""}, 1000, "libcuda.so.1"),
    ],
    ids=["more than the card has", "another count", "no card", "no card for CUDA", "no library"],
)
def test_a_step_that_fails_has_its_reason(
    variables: dict[str, str], cards: State, changed: dict[str, str], mib: int, says: str
) -> None:
    """The exit code is 3, the failed step has CUDA's name of the error or the loader's text, and all memory is given back."""
    code, lines = probe({**variables, **changed}, "allocate", "--mib", str(mib), "--seconds", "0")
    failed = next(line for line in lines if not line["ok"])

    assert code == 3
    assert says in str(failed)
    assert cards.cards()[1].used_mib == 0


def test_sigterm_gives_the_memory_back(variables: dict[str, str], cards: State) -> None:
    """While it holds, the process is in the card's list; after SIGTERM it frees and ends with 0."""
    argv = [sys.executable, "-I", "-c", PROBE, "allocate", "--mib", "1000", "--seconds", "600"]
    with subprocess.Popen(argv, env=variables, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["step"] == "verify":
                break
        (held,) = cards.cards()[1].processes
        process.send_signal(signal.SIGTERM)
        rest = [json.loads(line)["step"] for line in process.stdout]

    assert (held.pid, held.mib) == (process.pid, 1000)
    assert (process.returncode, rest) == (0, ["free", "close", "stopped"])
    assert cards.cards()[1].processes == ()


@pytest.mark.parametrize(
    "arguments", [(), ("dance",), ("allocate", "--mib", "5"), ("allocate", "--mib", "0", "--seconds", "1")], ids=str
)
def test_a_wrong_call_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    """The exit code is 2."""
    done = subprocess.run([sys.executable, "-I", "-c", PROBE, *arguments], capture_output=True, timeout=300)

    assert done.returncode == 2


def test_the_text_runs_in_old_images() -> None:
    """The syntax is that of Python 3.7, the oldest that can be checked, and only the standard library is imported."""
    tree = ast.parse(PROBE, feature_version=(3, 7))
    imported = [node.names[0].name for node in tree.body if isinstance(node, ast.Import)]

    assert set(imported) <= sys.stdlib_module_names


def test_a_kubelet_leaves_the_text_as_it_is() -> None:
    """A kubelet expands $(NAME) in commands, so the text has no dollar sign."""
    assert "$" not in PROBE


def test_the_probe_is_known_by_its_whole_text() -> None:
    """A container's command with any other text, or another program, is not the probe."""
    container = probe_container("main", "python:3.12", "look", limits={"aliyun.com/gpu-mem": 1})

    assert probe_arguments([*container["command"], *container["args"]]) == ("look",)
    assert probe_arguments(["python3", "-c", PROBE + "\n", "look"]) is None
    assert probe_arguments(["python", "-c", PROBE]) is None
    assert probe_arguments(["python3"]) is None
    assert container["resources"] == {"limits": {"aliyun.com/gpu-mem": 1}}
