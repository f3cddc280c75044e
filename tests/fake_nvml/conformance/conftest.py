"""pynvml on the library of six driver eras, or on a real driver if there is one."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from fake_nvml.box import Box
from fake_nvml.guard import DRIVER_FOLDER
from fake_nvml.native.build import LIBRARY, library_folder
from fake_nvml.state import State
from tests.fake_nvml.conformance.calls import DRIVERS, REAL, shut_down


@pytest.fixture(params=DRIVERS)
def driver(request: pytest.FixtureRequest) -> str:
    """A driver of each era."""
    return str(request.param)


@pytest.fixture
def branch(driver: str) -> int:
    """The driver's branch."""
    return int(driver.partition(".")[0])


@pytest.fixture
def state(request: pytest.FixtureRequest, driver: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[State]:
    """The box that the module names (``BOX``), else two T4s and a 1080 Ti, in a folder that other users may read.

    The library of this process is that of its driver.
    """
    with tempfile.TemporaryDirectory(prefix="gs-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        monkeypatch.setenv("FAKENVML_STATE", f"{folder}/state")
        monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(library_folder(driver) / LIBRARY)))
        pynvml._nvmlGetFunctionPointer_cache.clear()
        box = Box.load(getattr(request.module, "BOX", "mixed"), seed="node-1", driver=driver)
        with State.create(Path(folder, "state"), box) as created:
            yield created
            created.clear_faults()
            shut_down()
    pynvml._nvmlGetFunctionPointer_cache.clear()


@pytest.fixture
def nvml(state: State) -> None:
    """pynvml on these cards, initialised."""
    pynvml.nvmlInit()


@pytest.fixture
def any_nvml(request: pytest.FixtureRequest, driver: str) -> Iterator[None]:
    """pynvml on any cards, real ones too, initialised: for tests that change nothing."""
    if driver != REAL:
        request.getfixturevalue("state")
    elif not DRIVER_FOLDER.exists():
        pytest.skip(f"no real driver on this machine ({DRIVER_FOLDER})")
    pynvml.nvmlInit()
    yield
    shut_down()
