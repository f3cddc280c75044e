"""Simulated cards below the real pynvml of this process, put away after each test."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pynvml
import pytest

from fake_nvml.box import Box
from fake_nvml.fake_library import install
from fake_nvml.state import State


@pytest.fixture
def clean_pynvml() -> Iterator[None]:
    """The process-global library of pynvml, as it was before."""
    before = pynvml.nvmlLib
    try:
        yield
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            for _ in range(pynvml._nvmlLib_refcount):
                pynvml.nvmlShutdown()
        pynvml.nvmlLib = before
        pynvml._nvmlLib_refcount = 0
        pynvml._nvmlGetFunctionPointer_cache.clear()


@pytest.fixture
def simulate(tmp_path: Path, clean_pynvml: None) -> Iterator[Callable[..., State]]:
    """Make a box and put pynvml on it: ``simulate("t4x2", driver="470.57")`` answers its state."""
    states: list[State] = []

    def start(box: str = "mixed", *, driver: str | None = None) -> State:
        state = State.create(tmp_path / "state", Box.load(box, seed="node-1", driver=driver))
        states.append(state)
        install(state.path, on_purpose=True)
        return state

    yield start
    for state in states:
        state.close()
