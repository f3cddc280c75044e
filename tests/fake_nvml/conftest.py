"""A place for simulated cards, and the pynvml of this process as it was before each test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fake_nvml.box import Box
from fake_nvml.native.build import LIBRARY, ensure, library_folder
from fake_nvml.recording import record
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
def ask(state_path: Path, clean_pynvml: None, monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[str, Any]]:
    """Record the cards of the state file, through pynvml in this process."""
    monkeypatch.setenv("FAKENVML_STATE", str(state_path))

    def recording() -> dict[str, Any]:
        with State.open(state_path) as state:
            return record(library_folder(state.driver()) / LIBRARY)

    return recording


@pytest.fixture(scope="module")
def built() -> Path:
    """The folder of the libraries of all eras."""
    return ensure(os.environ)
