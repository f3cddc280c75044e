"""The stand-in for ``nvidia-smi -L``, as a program on the simulated library."""

from __future__ import annotations

import subprocess
import sys

from fake_nvml import nvidia_smi
from fake_nvml.native.build import library_folder
from fake_nvml.state import State


def test_it_lists_the_cards_as_the_real_program(state: State) -> None:
    """A line for each card that a container sees, or its error. Another query is refused by 6, no driver by 9."""
    variables = {"FAKENVML_STATE": str(state.path), "LD_LIBRARY_PATH": str(library_folder(state.driver()))}

    def run(*words: str, **more: str) -> tuple[int, list[str]]:
        argv = [sys.executable, "-I", nvidia_smi.__file__, *words]
        done = subprocess.run(argv, env=more, capture_output=True, text=True, timeout=300)
        return done.returncode, done.stdout.splitlines()

    lines = [f"GPU {card.index}: {card.name} (UUID: {card.uuid})" for card in state.cards()]
    assert run("-L", **variables) == (0, lines)
    seen = run("-L", **variables, FAKENVML_VISIBLE=state.cards()[1].uuid)
    assert seen == (0, [lines[1].replace("GPU 1", "GPU 0", 1)])
    state.lose(state.cards()[0].uuid)
    lost = "Unable to determine the device handle for gpu 0: GPU is lost"
    assert run("-L", **variables) == (0, [lost, *lines[1:]])
    assert run("-q", **variables)[0] == 6
    assert run("-L")[0] == run("-L", **{**variables, "FAKENVML_STATE": "/nowhere"})[0] == 9
