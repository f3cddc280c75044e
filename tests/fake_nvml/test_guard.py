"""Simulated cards stay away from real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from fake_nvml.fake_nvml_errors import RealDriverError
from fake_nvml.guard import check_real_driver


def test_without_a_real_driver_nothing_is_asked(tmp_path: Path) -> None:
    """No purpose is needed."""
    check_real_driver(on_purpose=False, driver_folder=tmp_path / "nvidia")


def test_beside_a_real_driver_the_refusal_says_how_to_insist(tmp_path: Path) -> None:
    """The error names the variable."""
    with pytest.raises(RealDriverError, match="set FAKENVML_STATE"):
        check_real_driver(on_purpose=False, driver_folder=tmp_path)


def test_beside_a_real_driver_a_purpose_is_enough(tmp_path: Path) -> None:
    """No error is raised."""
    check_real_driver(on_purpose=True, driver_folder=tmp_path)
