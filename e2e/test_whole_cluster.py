"""The end of a run is a verdict of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import pytest

from clusters.providers import Choices
from clusters.targets import Target
from e2e import commands
from e2e.extender.extender_under_test import ExtenderUnderTest
from e2e.observer import Observer
from e2e.whole_cluster import look

_CONFTEST: Final = """
import pytest
from e2e.whole_cluster import NAME, VERDICT, WholeCluster

def pytest_addoption(parser):
    parser.addoption("--cluster", default="embedded")

def pytest_configure(config):
    config.pluginmanager.register(WholeCluster(config), NAME)

@pytest.fixture(scope="session")
def cluster(request):
    yield
    request.config.stash[VERDICT] = {"call": "card 0 of gone: 3 units are in use"}
"""
_CASES: Final = "def test_one(cluster): pass\ndef test_two(cluster): pass\n"


async def test_a_wrong_cluster_fails_its_verdict_and_no_case(tmp_path: Path) -> None:
    """Each process reports its cluster, the run fails, and both cases pass."""
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    (tmp_path / "test_cases.py").write_text(_CASES)
    verdicts = ["gw0", "gw1"]
    arguments = (
        "-m",
        "pytest",
        "-rA",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        "-n",
        "2",
        "--dist",
        "load",
    )
    variables = {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = await commands.run(sys.executable, *arguments, folder=tmp_path, variables=variables)

    assert done.code == pytest.ExitCode.TESTS_FAILED, done.said
    outcomes = [line.partition(" - ")[0] for line in done.output.splitlines() if line.startswith(("PASSED", "FAILED"))]
    # Processes end in any order.
    assert sorted(outcomes) == [
        *(f"FAILED e2e/whole_cluster.py::whole_cluster[{one}]" for one in verdicts),
        *(f"PASSED test_cases.py::test_{one}" for one in ("one", "two")),
    ]
    assert done.output.count("\ncard 0 of gone: 3 units are in use\n") == len(verdicts)


@pytest.mark.stand_in_only("no kubelet has a part in it")
async def test_a_node_of_no_case_is_looked_at(
    request: pytest.FixtureRequest, observer: Observer, target: Target, choices: Choices, tmp_path: Path
) -> None:
    """The look at the end finds what is wrong on any node, and nothing else."""
    stage = ExtenderUnderTest(observer, target, choices, request.config.getoption("--cluster"), tmp_path)
    name = f"{stage.namespace}-node"
    assert await look(observer.cluster) == []
    try:
        await stage.node(name, 16, 1)
        await stage.booked("heavy", name, 0, 20)
        await stage.used(name, 20)

        assert [(one.node, one.card, one.rule) for one in await look(observer.cluster)] == [(name, 0, "book")]
    finally:
        await stage.close()
