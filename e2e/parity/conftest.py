"""Starts both sides once for all cases here, and ends them with the last; a namespace for each case."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from clusters.controlplane.binaries import Binaries
from clusters.controlplane.real_control_plane import RealControlPlane
from clusters.embedded.embedded_control_plane import EmbeddedControlPlane
from clusters.processes.scratch import scratch_folder
from clusters.providers import Choices
from e2e.parity.sides import Both, open_side
from e2e.summary import SHOWN

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="package")
def folder() -> Iterator[Path]:
    """Certificates, data and logs of the sides."""
    with scratch_folder() as path:
        yield path


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def sides(binaries: Binaries, choices: Choices, folder: Path) -> AsyncIterator[Both]:
    async for both in _both(binaries, choices, folder / "controlled", controllers=True):
        yield both


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def bare_sides(binaries: Binaries, choices: Choices, folder: Path) -> AsyncIterator[Both]:
    """Both sides without controllers: nothing changes that the case does not change."""
    async for both in _both(binaries, choices, folder / "bare", controllers=False):
        yield both


@pytest_asyncio.fixture(loop_scope="session")
async def both(record_property: Callable[[str, object], None], sides: Both) -> AsyncIterator[Both]:
    """Both sides, with a namespace of the case's own."""
    async with sides.in_namespace(f"parity-{next(_NUMBERS)}") as mine:
        yield mine
    for row in mine.seen:
        record_property(SHOWN, row)


@pytest_asyncio.fixture(loop_scope="session")
async def bare(bare_sides: Both) -> AsyncIterator[Both]:
    """Both sides without controllers, with a namespace of the case's own."""
    async with bare_sides.in_namespace(f"parity-{next(_NUMBERS)}") as mine:
        yield mine


async def _both(binaries: Binaries, choices: Choices, folder: Path, *, controllers: bool) -> AsyncIterator[Both]:
    (folder / "embedded").mkdir(parents=True)
    (folder / "real").mkdir()
    embedded = EmbeddedControlPlane(folder / "embedded")
    real = RealControlPlane(binaries, folder / "real", choices.environment)
    try:
        await embedded.start(controllers=controllers)
        await real.start(controllers=controllers)
        async with open_side("embedded", embedded) as first, open_side("controlplane", real) as second:
            yield Both(first, second)
    finally:
        await embedded.stop()
        await real.stop()
