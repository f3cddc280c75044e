"""The stand-in for ``nvidia-smi -L``, as a program on the simulated library."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fake_nvml import nvidia_smi
from fake_nvml.native.build import library_folder
from fake_nvml.native.compiler import CompilerError
from fake_nvml.state import State


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-I", nvidia_smi.__file__, *arguments]
    return subprocess.run(argv, env=variables, capture_output=True, text=True, timeout=300)


@pytest.fixture
def variables(state: State) -> dict[str, str]:
    try:
        folder = library_folder(state.driver(), os.environ)
    except CompilerError as error:
        pytest.skip(f"no library in C: {error}")
    return {"FAKENVML_STATE": str(state.path), "LD_LIBRARY_PATH": str(folder)}


def test_it_lists_the_cards_as_the_real_program(state: State, variables: dict[str, str]) -> None:
    """One line for each card, and in a container only for those that it sees."""
    lines = [f"GPU {card.index}: {card.name} (UUID: {card.uuid})" for card in state.cards()]

    assert run("-L", **variables).stdout.splitlines() == lines
    seen = run("-L", **variables, FAKENVML_VISIBLE=state.cards()[1].uuid)
    assert seen.stdout.splitlines() == [lines[1].replace("GPU 1", "GPU 0", 1)]


def test_a_lost_card_is_named(state: State, variables: dict[str, str]) -> None:
    """The other cards are listed all the same."""
    state.lose(state.cards()[0].uuid)
    first, second, *_ = run("-L", **variables).stdout.splitlines()

    assert first == "Unable to determine the device handle for gpu 0: GPU is lost"
    assert second.startswith("GPU 1: ")


def test_without_a_driver_it_fails(variables: dict[str, str], tmp_path: Path) -> None:
    """Exit code 9, with no library or with one that finds no driver."""
    assert run("-L").returncode == 9
    assert run("-L", **{**variables, "FAKENVML_STATE": str(tmp_path / "nothing")}).returncode == 9


def test_it_answers_nothing_else(variables: dict[str, str]) -> None:
    """Any other query is refused."""
    assert run("-q", **variables).returncode == 6
