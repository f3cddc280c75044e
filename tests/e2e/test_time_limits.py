"""A case over its time limit fails alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.tracked_files import ROOT

_SETTINGS = """
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = session
asyncio_default_test_loop_scope = session
timeout_method = signal
"""
_CASES = """
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

_CONFTEST = """
from e2e import time_limits

def pytest_configure(config):
    config.pluginmanager.register(time_limits)

def pytest_collection_modifyitems(items):
    time_limits.cancel_late(items)
"""


def test_a_case_over_its_limit_fails_alone(tmp_path: Path) -> None:
    """It is cancelled, or an alarm ends it; the cases after it pass in the same process, on the same event loop."""
    (tmp_path / "pytest.ini").write_text(_SETTINGS)
    (tmp_path / "test_cases.py").write_text(_CASES)
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "-n", "0"]
    variables = {"PYTHONPATH": str(ROOT), "PATH": str(Path(sys.executable).parent)}
    run = subprocess.run(argv, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=500)

    assert "3 failed, 2 passed" in run.stdout, run.stdout + run.stderr
    assert "the case is over its limit of 3 s" in run.stdout
    assert "crashed" not in run.stdout
