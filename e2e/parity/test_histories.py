"""Random histories of requests have the same answers and the same watches on both sides.

A failure prints the shortest history that still fails. Put it into ``histories/regressions`` when its cause is mended:
from then on it is replayed in every run. More: ``--parity-operations 20000 --parity-seed 77``.
"""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Final

import pytest

from e2e.parity.histories.history_compare import Difference, compare
from e2e.parity.histories.history_replay import replay
from e2e.parity.histories.operations import History, decode, encode
from e2e.parity.histories.random_history import generate
from e2e.parity.histories.shrink import shrink
from e2e.parity.sides import Both

_REGRESSIONS: Final = sorted((Path(__file__).parent / "histories" / "regressions").glob("*.json"))
_OPERATIONS: Final = 2000
_A_HISTORY: Final = 100
_FIRST_SEED: Final = 1
# A run of a history of a hundred operations takes about a second.
_MOST_RUNS: Final = 60
_NUMBERS: Final = itertools.count(1)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A case for each seed: as many as make up the operations that are asked for."""
    if "seed" in metafunc.fixturenames:
        first = metafunc.config.getoption("--parity-seed", default=_FIRST_SEED)
        operations = metafunc.config.getoption("--parity-operations", default=_OPERATIONS)
        count = max(operations // _A_HISTORY, 1)
        metafunc.parametrize("seed", range(first, first + count))


@pytest.mark.promise("G1-01", "G1-02", "G1-08", "G1-11", "G1-13")
async def test_a_history_is_the_same_on_both(bare_sides: Both, seed: int) -> None:
    """D1, D2, D3: every answer and every watch of a hundred random requests."""
    history = generate(seed, _A_HISTORY)
    if await _differences(bare_sides, history):
        await _fail(bare_sides, seed, history)


@pytest.mark.parametrize("path", _REGRESSIONS, ids=lambda path: path.stem)
async def test_a_history_that_once_differed_is_the_same_on_both(bare_sides: Both, path: Path) -> None:
    """Differences that were mended stay mended."""
    found = await _differences(bare_sides, decode(path.read_bytes()))
    assert not found, "\n".join(each.text() for each in found)


async def _differences(both: Both, history: History) -> list[Difference]:
    namespace = f"history-{next(_NUMBERS)}"
    embedded, real = await asyncio.gather(
        replay(both.embedded.http, namespace, history), replay(both.real.http, namespace, history)
    )
    return compare(embedded, real)


async def _fail(both: Both, seed: int, history: History) -> None:
    """Say in the fewest operations what differs."""

    async def fails(candidate: History) -> bool:
        return bool(await _differences(both, candidate))

    shortest = await shrink(history, fails, most_runs=_MOST_RUNS)
    found = await _differences(both, shortest)
    texts = "\n".join(each.text() for each in found[:10]) or "nothing any more: the difference comes and goes"
    pytest.fail(f"seed {seed}: embedded and real differ\n{encode(shortest)}{texts}", pytrace=False)
