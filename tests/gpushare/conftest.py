"""Simulated cards below the real pynvml of this process, put away after each test."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path

import pynvml
import pytest

from fake_nvml.box import Box
from fake_nvml.native.build import LIBRARY, library_folder
from fake_nvml.state import State


@pytest.fixture
def simulate(tmp_path: Path, clean_pynvml: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., State]]:
    """Make a box and put pynvml on it: ``simulate("t4x2", driver="470.57")`` answers its state."""
    started: list[tuple[State, ctypes.CDLL]] = []

    def start(box: str = "mixed", *, driver: str | None = None) -> State:
        state = State.create(tmp_path / "state", Box.load(box, seed="node-1", driver=driver))
        monkeypatch.setenv("FAKENVML_STATE", str(state.path))
        pynvml.nvmlLib = ctypes.CDLL(str(library_folder(state.driver()) / LIBRARY))
        started.append((state, pynvml.nvmlLib))
        pynvml._nvmlGetFunctionPointer_cache.clear()
        return state

    yield start
    for state, library in started:
        # One that is initialised would show its cards to the next test: a process loads each library once.
        while library.nvmlSystemGetDriverVersion(None, 0) != pynvml.NVML_ERROR_UNINITIALIZED:
            library.nvmlShutdown()
        state.close()
