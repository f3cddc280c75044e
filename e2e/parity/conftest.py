"""Starts both sides once a run; a namespace for each case; prints the table of differences at the end."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from clusters.controlplane.binaries import Binaries
from clusters.controlplane.control_plane import RealControlPlane
from clusters.embedded.control_plane import EmbeddedControlPlane
from clusters.providers import Choices
from clusters.scratch import scratch_folder
from e2e.parity import catalogue, differences
from e2e.parity.sides import Both, open_side

_NUMBERS = itertools.count(1)
# Under this name a case's report says which rows of the table it has shown: reports come from other processes too.
_SHOWN = "difference"


def pytest_addoption(parser: pytest.Parser) -> None:
    """How much of what is random a run shall see."""
    group = parser.getgroup("parity", "comparison of the embedded with the real control plane")
    group.addoption("--parity-operations", type=int, default=2000, help="requests of all random histories together")
    group.addoption("--parity-seed", type=int, default=1, help="seed of the first random history; each has the next")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table of differences is part of the report of a run that compared anything."""
    reports = (report for some in terminalreporter.stats.values() for report in some)
    properties = (one for report in reports for one in getattr(report, "user_properties", ()))
    shown, rows = {row for name, row in properties if name == _SHOWN}, differences.load()
    if shown and rows:
        terminalreporter.section(
            f"embedded and real differ in {len(rows)} known ways, {len(shown)} of them shown in this run"
        )
        terminalreporter.write_line(differences.report(rows))
        terminalreporter.section(
            "what a stand-in must reproduce (G1 API server, G2 scheduler, G3 kubelet), and what proves it"
        )
        terminalreporter.write_line(
            catalogue.report(row for row in catalogue.load() if row.reference in catalogue.LISTS)
        )


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    """Certificates, data and logs of the sides."""
    with scratch_folder() as path:
        yield path


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def sides(binaries: Binaries, choices: Choices, folder: Path) -> AsyncIterator[Both]:
    """Both sides with their controllers."""
    async for both in _both(binaries, choices, folder / "controlled", controllers=True):
        yield both


@pytest_asyncio.fixture(scope="session", loop_scope="session")
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
        record_property(_SHOWN, row)


@pytest_asyncio.fixture(loop_scope="session")
async def bare(record_property: Callable[[str, object], None], bare_sides: Both) -> AsyncIterator[Both]:
    """Both sides without controllers, with a namespace of the case's own."""
    async with bare_sides.in_namespace(f"bare-{next(_NUMBERS)}") as mine:
        yield mine
    for row in mine.seen:
        record_property(_SHOWN, row)


async def _both(binaries: Binaries, choices: Choices, folder: Path, *, controllers: bool) -> AsyncIterator[Both]:
    (folder / "embedded").mkdir(parents=True)
    (folder / "real").mkdir()
    embedded = EmbeddedControlPlane(folder / "embedded")
    real = RealControlPlane(binaries, folder / "real", choices.environment)
    try:
        await embedded.start(controllers=controllers)
        await real.start(controllers=controllers)
        async with open_side("embedded", embedded) as first, open_side("controlplane", real) as second:
            yield Both(first, second, differences.load())
    finally:
        await embedded.stop()
        await real.stop()
