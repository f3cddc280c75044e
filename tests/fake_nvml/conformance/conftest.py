"""The layers that the suite runs over: the library in six driver eras, under the oldest and the newest pynvml; the library
again under sanitizers; a real driver if there is one.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fake_nvml.box import Box
from fake_nvml.guard import DRIVER_FOLDER
from fake_nvml.native.build import library_folder
from fake_nvml.state import State
from tests.fake_nvml.clients.nvml_client import NotInstallableError, install
from tests.fake_nvml.conformance.layers import OLDEST_PYNVML, REAL, SIMULATED, Layer
from tests.fake_nvml.conformance.probed import Probed
from tests.fake_nvml.native.sanitized import sanitized_library


@pytest.fixture(scope="session")
def old_pynvml() -> Path:
    """The folder of the oldest pynvml that we support, fetched once into the cache."""
    try:
        return install("", "pynvml").folder
    except NotInstallableError as error:
        pytest.skip(f"nvidia-ml-py {OLDEST_PYNVML} cannot be had: {error}")


@pytest.fixture(scope="session")
def start_probe(request: pytest.FixtureRequest) -> Iterator[Callable[[Layer], Probed]]:
    """One process for each layer, kept for all tests."""
    running: dict[Layer, Probed] = {}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gs-", dir="/tmp")))
        folder.chmod(0o755)  # another user reads in it

        def start(layer: Layer) -> Probed:
            if layer not in running:
                pynvml = str(request.getfixturevalue("old_pynvml")) if layer.pynvml else ""
                probed = Probed(pynvml, folder / str(layer), _environment(layer, folder))
                stack.callback(probed.close)
                running[layer] = probed
            return running[layer]

        yield start


def _environment(layer: Layer, folder: Path) -> dict[str, str]:
    """The variables of a process on a layer."""
    plain = {key: value for key, value in os.environ.items() if key not in ("LD_LIBRARY_PATH", "FAKENVML_STATE")}
    if layer.kind == "real":
        return plain
    plain["FAKENVML_STATE"] = str(folder / str(layer))
    if layer.kind == "sanitized":
        return {**plain, **sanitized_library(layer.driver)}
    return {**plain, "LD_LIBRARY_PATH": str(library_folder(layer.driver))}


_SANITIZED = pytest.mark.thorough("the same library without sanitizers answers the same")


@pytest.fixture(
    params=[pytest.param(one, marks=_SANITIZED if one.kind == "sanitized" else ()) for one in SIMULATED], ids=str
)
def layer(request: pytest.FixtureRequest) -> Layer:
    """Each simulated layer."""
    found: Layer = request.param
    return found


@pytest.fixture
def branch(layer: Layer) -> int:
    """The driver's branch of the layer."""
    return layer.branch


@pytest.fixture
def nvml(layer: Layer, start_probe: Callable[[Layer], Probed], state: State) -> Iterator[Probed]:
    """pynvml on simulated cards, initialised: a T4, a T4 and a 1080 Ti, with their state in ``state``."""
    probed = start_probe(layer)
    probed.nvmlInit()
    yield probed
    probed.reset()


@pytest.fixture
def state(layer: Layer, start_probe: Callable[[Layer], Probed]) -> Iterator[State]:
    """Two T4s and a 1080 Ti in the layer's state file."""
    path = start_probe(layer).state_path
    path.unlink(missing_ok=True)
    with State.create(path, Box.load("mixed", seed="node-1", driver=layer.driver)) as created:
        yield created


@pytest.fixture(params=(*SIMULATED, REAL), ids=str)
def any_layer(request: pytest.FixtureRequest) -> Layer:
    """Each simulated layer, and a real driver."""
    found: Layer = request.param
    return found


@pytest.fixture
def any_nvml(any_layer: Layer, start_probe: Callable[[Layer], Probed]) -> Iterator[Probed]:
    """pynvml on any cards, real ones too, not initialised: for tests that change nothing."""
    if any_layer.kind == "real" and not DRIVER_FOLDER.exists():
        pytest.skip(f"no real driver on this machine ({DRIVER_FOLDER})")
    probed = start_probe(any_layer)
    if any_layer.kind != "real":
        probed.state_path.unlink(missing_ok=True)
        State.create(probed.state_path, Box.load("mixed", seed="node-1", driver=any_layer.driver)).close()
    yield probed
    probed.reset()
