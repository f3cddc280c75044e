"""The player as its image has it, and a state file for it to play on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters.kind.program_images.compiled_images import compile_player
from fake_nvml.box import Box
from fake_nvml.native.compiler import CompilerError, find_compiler
from fake_nvml.state import State


@pytest.fixture(scope="session")
def player(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the program and of its other names."""
    folder = tmp_path_factory.mktemp("player")
    try:
        compiler = find_compiler(os.environ)
    except CompilerError as error:
        pytest.skip(str(error))
    compile_player(compiler, folder)
    return folder


@pytest.fixture
def cards(tmp_path: Path) -> Iterator[State]:
    """A node with two T4."""
    with State.create(tmp_path / "state", Box.load("t4x2", seed="node")) as state:
        yield state
