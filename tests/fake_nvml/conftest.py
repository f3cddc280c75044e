"""Simulated cards below the real pynvml of this process, put away after each test."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pynvml
import pytest

from fake_nvml.box import Box
from fake_nvml.install import install
from fake_nvml.state import State

Simulate = Callable[..., State]


@pytest.fixture
def state_path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "state"


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
def simulate(state_path: Path, clean_pynvml: None) -> Iterator[Simulate]:
    """Make a box and put pynvml on it, initialised: ``simulate("t4x2", driver="470.57")`` answers its state."""
    states: list[State] = []

    def start(box: str = "mixed", *, driver: str | None = None, seed: str = "node-1") -> State:
        state = State.create(state_path, Box.load(box, seed=seed, driver=driver))
        states.append(state)
        install(state_path, on_purpose=True)
        pynvml.nvmlInit()
        return state

    yield start
    for state in states:
        state.close()
