"""Which process of pytest-xdist runs which cases, and when: files are not torn apart, and what takes long comes first.

A session's fixtures are set up once in each process that needs them. The comparison with the real control plane starts two of
those; with its files dealt out to all processes, as ``--dist loadfile`` does, each would start two of its own. So it is three
parts, which take about the same time. And a file that takes minutes, begun last, has one process work while the others have
ended: xdist looks at the number of tests alone.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Final

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

# Files with cases that share an expensive set-up, by the beginning of their paths; the first that fits counts.
_TOGETHER: Final = ("e2e/parity/test_api_", "e2e/parity/test_scheduler_", "e2e/parity/")
# Files and folders that take minutes. First those with clusters of their own: the session's need not be up then.
_FIRST: Final = (
    "e2e/slots/",
    "e2e/kind/",
    "e2e/attacks/",
    "e2e/parity/",
    "e2e/bursts/test_bursts.py",
    "e2e/chaos/",
    "e2e/limits/",
    "e2e/extender/test_random_states.py",
    "e2e/onsite/",
    "e2e/scenarios/test_upgrade.py",
    "tests/clusters/deploy/",
    "tests/clusters/controlplane/",
    "e2e/migration/",
    "tests/load/",
    "e2e/scenarios/test_restarts.py",
    "e2e/faults/",
    # Cases mostly wait, unit tests compute: these fill the processors to the end.
    "e2e/",
)


def add_option(group: pytest.OptionGroup) -> None:
    """``--seed``."""
    group.addoption(
        "--seed", type=int, help="shuffle the files, and the cases of each, by this number (default: no shuffling)"
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    """The seed, if there is one."""
    seed = config.getoption("--seed", default=None)
    return None if seed is None else f"order of the cases: --seed {seed}"


class ByCluster(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out files, and some together, in the order of the collection."""

    def _split_scope(self, nodeid: str) -> str:
        path = _path(nodeid)
        return next((part for part in _TOGETHER if path.startswith(part)), path)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByCluster | None:
    """In place of ``--dist loadfile``; a user's other choice stays."""
    if config.getoption("dist") != "loadfile":
        return None
    # The order is ours.
    config.option.loadscopereorder = False
    return ByCluster(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long cases first, then cases, then unit tests, larger files first; a file's order stays.

    With a seed the order is random; files stay together. The place of a file, and of a case in it, follows from the seed and its
    name alone, so a part of a run has the order that it had in the whole.
    """
    counts = Counter(_path(item.nodeid) for item in items)
    seed = config.getoption("--seed", default=None)

    def chance(name: str) -> float:
        return random.Random(f"{seed} {name}").random()

    def random_place(item: pytest.Item) -> tuple[float, float]:
        return chance(_path(item.nodeid)), chance(item.nodeid)

    def place(item: pytest.Item) -> tuple[int, int, str]:
        path = _path(item.nodeid)
        early = next((number for number, first in enumerate(_FIRST) if path.startswith(first)), len(_FIRST))
        return early, -counts[path], path

    items.sort(key=place if seed is None else random_place)


def _path(nodeid: str) -> str:
    return nodeid.partition("::")[0]
