"""The library in C, built once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fake_nvml.native.build import ensure
from fake_nvml.native.compiler import CompilerError


@pytest.fixture(scope="module")
def built() -> Path:
    """The folder of the libraries of all eras."""
    try:
        return ensure(os.environ)
    except CompilerError as error:
        pytest.skip(f"no library in C: {error}")
