"""The library in C, built once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fake_nvml.native.build import ensure


@pytest.fixture(scope="module")
def built() -> Path:
    """The folder of the libraries of all eras."""
    return ensure(os.environ)
