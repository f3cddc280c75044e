"""How many bursts, from which seed."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import pytest

from e2e.bursts.burst_stage import BURSTS_OF_A_WORLD
from e2e.real_kubelets import STAND_INS
from e2e.report.sources import commit_number

SEED: Final = pytest.StashKey[int]()
_COUNTS: Final = defaultdict(lambda: 5, embedded=40, kind=20)


def pytest_configure(config: pytest.Config) -> None:
    """The seed is the same for every worker of this run."""
    chosen = config.getoption("--burst-seed", default=None)
    config.stash[SEED] = chosen if chosen is not None else commit_number()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A case for each burst, named by what plays it again."""
    if "burst_seed" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("--bursts", default=None)
        count = chosen if chosen is not None else _COUNTS[metafunc.config.getoption("--cluster")]
        if only := metafunc.config.getoption("--burst", default=""):
            metafunc.parametrize(
                ("player", "burst_seed"), [(only, only)], ids=[only], indirect=["player"], scope="module"
            )
            return
        seed = metafunc.config.stash[SEED]
        seeds = [f"{seed}/{number}" for number in range(count)]
        a_world = BURSTS_OF_A_WORLD if metafunc.config.getoption("--cluster") in STAND_INS else count
        pairs = [(f"{seed}/{number - number % a_world}", seeds[number]) for number in range(count)]
        metafunc.parametrize(("player", "burst_seed"), pairs, ids=seeds, indirect=["player"], scope="module")
