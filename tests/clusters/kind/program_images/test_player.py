"""The player does in a container what the stand-in's containers do; on kind it runs in each pod."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from clusters.images.image_command import SHELLS, outcome_of
from clusters.kind.program_images.compiled_images import compile_player
from fake_nvml.native.compiler import CompilerError, find_compiler


@pytest.fixture(scope="module")
def player(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the program and of its other names."""
    folder = tmp_path_factory.mktemp("player")
    try:
        compile_player(find_compiler(os.environ), folder)
    except CompilerError as error:
        pytest.skip(str(error))
    return folder


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


@pytest.mark.parametrize("name", ["true", "false", "echo", "env", "printenv", "exit", "sleep", *SHELLS])
def test_every_command_of_the_stand_in_is_a_name_of_it(player: Path, name: str) -> None:
    """Every command of the stand-in is a name of the player, so that one manifest runs on both."""
    assert (player / Path(name).name).resolve() == (player / "player").resolve()


def test_it_refuses_a_file_that_is_no_state(player: Path, tmp_path: Path) -> None:
    """The player writes nothing into another program's file."""
    other = tmp_path / "other"
    other.write_text("precious")
    settings = {"FAKENVML_STATE": str(other), "NVIDIA_VISIBLE_DEVICES": "0"}
    done = subprocess.run([player / "player"], env=settings, capture_output=True, timeout=300)

    assert (done.returncode, other.read_text()) == (1, "precious")
