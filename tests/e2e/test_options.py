"""Options of a run, its time limits, and what its target declares."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from clusters.targets import CAPABILITIES, FOLDER, load_target
from e2e import distribution
from tests.tracked_files import ROOT

SETTINGS = """
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = session
asyncio_default_test_loop_scope = session
timeout_method = signal
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}


def argv(*words: str) -> list[str]:
    """pytest with these words."""
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]


def laid_down(folder: Path, conftest: str, cases: str) -> list[str]:
    """pytest over these cases, which lie there now."""
    for name, text in {"pytest.ini": SETTINGS, "conftest.py": conftest, "test_cases.py": cases}.items():
        (folder / name).write_text(text)
    return argv("--rootdir", str(folder), "-n", "0", str(folder))


def test_all_words_of_the_readme_are_options_of_make_e2e() -> None:
    """Each option of the page is one of ``make e2e``, though some are of cases in one folder only."""
    readme = (ROOT / "e2e/README.md").read_text()
    words = {word for text in re.findall(r'ARGS="([^"]*)"', readme) for word in shlex.split(text)}
    options = {word for word in words if word.startswith("--")}
    assert {"--bursts", "--burst-seed"} <= options
    done = subprocess.run(argv("e2e", "--help"), cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)

    assert {option for option in options if f"  {option}" not in done.stdout} == set()


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


def test_a_failure_keeps_the_cluster_until_ctrl_c(tmp_path: Path) -> None:
    """The run names the kubeconfig and the namespace, goes on after SIGINT, and runs no further case."""
    command = [*laid_down(tmp_path, CONFTEST, CASES), "--keep-cluster"]
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


def test_what_is_not_declared_is_not_applicable(tmp_path: Path) -> None:
    """Such a case is skipped with the reason before anything is started."""
    declared = {"capabilities": sorted(CAPABILITIES - {"explain"})}
    target = tmp_path / "t.yaml"
    target.write_text(yaml.safe_dump(yaml.safe_load((FOLDER / "gpushare.yaml").read_text()) | declared))
    command = argv(
        "e2e/extender/test_extender_explain.py", "--target", str(target), "-q", "-rs", "--verdicts", str(tmp_path)
    )
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "not applicable: target gpushare does not declare explain" in run.stdout
    assert " passed" not in run.stdout


@pytest.mark.parametrize("name", ["gpushare", "gpushare-slots"])
def test_our_targets_declare_everything(name: str) -> None:
    """No case is left out for our own programs, and the page explains each capability."""
    assert load_target(name).capabilities == CAPABILITIES
    page = (FOLDER / "README.md").read_text()
    assert [one for one in CAPABILITIES if f"`{one}`" not in page] == []


LATE_CASES = """
import asyncio
import time
import pytest

left = []

@pytest.mark.timeout(3)
async def test_waits():
    try:
        await asyncio.Event().wait()
    finally:
        left.append("cancelled")

@pytest.mark.timeout(3)
async def test_holds_up_the_loop():
    time.sleep(1000)

@pytest.mark.timeout(3)
def test_is_not_asynchronous():
    time.sleep(1000)

async def test_goes_on():
    await asyncio.sleep(0)
    assert left == ["cancelled"]

async def test_has_a_timeout_of_its_own():
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await asyncio.Event().wait()
"""

LATE_CONFTEST = """
from e2e import time_limits

def pytest_configure(config):
    config.pluginmanager.register(time_limits)

def pytest_collection_modifyitems(items):
    time_limits.cancel_late(items)
"""


def test_a_case_over_its_limit_fails_alone(tmp_path: Path) -> None:
    """It is cancelled, or an alarm ends it; the cases after it pass in the same process, on the same event loop."""
    command = laid_down(tmp_path, LATE_CONFTEST, LATE_CASES)
    run = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=500)

    assert "3 failed, 2 passed" in run.stdout, run.stdout + run.stderr
    assert "the case is over its limit of 3 s" in run.stdout
    assert "crashed" not in run.stdout
