"""Putting the stand-in below pynvml and taking it away."""

from __future__ import annotations

from pathlib import Path

import pynvml
import pytest

from fake_nvml.box import Box
from fake_nvml.fake_library import install
from fake_nvml.fake_nvml_errors import RealDriverError
from fake_nvml.state import State

pytestmark = pytest.mark.usefixtures("clean_pynvml")


def test_another_library_gets_other_functions(tmp_path: Path) -> None:
    """The functions that pynvml looked up in the first library do not answer for the second."""
    for driver in ("470.57", "535.104.05"):
        path = tmp_path / driver
        State.create(path, Box.load("t4x1", seed="node", driver=driver)).close()
        install(path, on_purpose=True)
        pynvml.nvmlInit()

        assert pynvml.nvmlSystemGetDriverVersion() == driver


def test_a_real_driver_stays_in_place(state_path: Path, tmp_path: Path) -> None:
    """The stand-in is not put below pynvml."""
    with pytest.raises(RealDriverError):
        install(state_path, driver_folder=tmp_path)

    assert pynvml.nvmlLib is None
