"""Promises of --seed (e2e.distribution) and --keep-cluster (e2e.kept_cluster)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from e2e import distribution

ROOT = Path(__file__).parents[1]
CONFTEST = """
from pathlib import Path
from types import SimpleNamespace
import pytest
from e2e import kept_cluster

def pytest_addoption(parser): kept_cluster.add_option(parser.getgroup("x"))

def pytest_configure(config): kept_cluster.check(config)

def pytest_collection_modifyitems(config, items): kept_cluster.prepare(config, items)

@pytest.fixture
async def cluster(request):
    yield SimpleNamespace(kubeconfig=Path("/the/kubeconfig"))
    await kept_cluster.keep(request, SimpleNamespace(kubeconfig=Path("/the/kubeconfig")), "case-7")
    print("left")
"""
CASES = """
async def test_passes(cluster): pass
async def test_fails(cluster): assert False
async def test_is_not_run(cluster): pass
"""


PATHS = ("e2e/slots/test_x.py", "e2e/a/test_y.py", "tests/test_z.py")


def ordered(seed: int | None, paths: Sequence[str] = PATHS) -> list[str]:
    """The order of three files with five cases each."""
    items: list[Any] = [SimpleNamespace(nodeid=f"{path}::test_{number}") for path in paths for number in range(5)]
    config: Any = SimpleNamespace(getoption=lambda name, default: seed)
    distribution.pytest_collection_modifyitems(config, items)
    return [item.nodeid for item in items]


def test_a_seed_shuffles_and_gives_the_same_order_again() -> None:
    """Files stay together whatever the seed is."""
    assert ordered(7) == ordered(7)
    assert len({tuple(ordered(seed)) for seed in (None, 1, 2, 3)}) == 4
    for seed in (None, 1, 2, 3):
        files = [nodeid.partition("::")[0] for nodeid in ordered(seed)]
        assert files == [file for file in dict.fromkeys(files) for _ in range(5)]


def argv(folder: Path, *words: str) -> list[str]:
    """pytest over the cases there."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_cases.py").write_text(CASES)
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--keep-cluster", str(folder), *words]


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}


def test_a_failure_keeps_the_cluster_until_ctrl_c(tmp_path: Path) -> None:
    """The run names the kubeconfig and the namespace, goes on after SIGINT, and runs no further case."""
    command = argv(tmp_path, "-n", "0")
    with subprocess.Popen(command, cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "is kept until Ctrl-C" in line:
                process.send_signal(signal.SIGINT)
        code = process.wait(timeout=300)

    text = "".join(lines)
    assert "the case's pods are in case-7: export KUBECONFIG=/the/kubeconfig" in text
    assert "1 failed, 1 passed" in text
    assert "KeyboardInterrupt" not in text
    assert code == 1
