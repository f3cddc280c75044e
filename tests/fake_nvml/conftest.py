"""A place for simulated cards, and the pynvml of this process as it was before each test."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from fake_nvml.box import Box
from fake_nvml.state import State


@pytest.fixture
def state_path(tmp_path: Path) -> Path:
    """A place for a state file, whose folder is not there yet."""
    return tmp_path / "run" / "state"


@pytest.fixture
def state(request: pytest.FixtureRequest, state_path: Path) -> Iterator[State]:
    """The cards of the box that the module names (``BOX``), else two T4s and a 1080 Ti."""
    box = Box.load(getattr(request.module, "BOX", "mixed"), seed="node-1")
    with State.create(state_path, box) as created:
        yield created


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
