"""The options of the cases, as a repository of others has them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tracked_files import ROOT

CONFTEST = """
from e2e.pytest_plugin import suite_options

RENAMED = {}

def pytest_addoption(parser):
    parser.getgroup("gpushare").addoption("--gpu-target", default="gpushare")
    group = suite_options._Parser(parser, RENAMED).getgroup("gpushare")
    group.addoption("--bursts", type=int)
    group.addoption("--burst-seed", type=int, default=3)
    group.addoption("--target", default="gpushare")
    OTHER

def pytest_configure(config):
    config.pluginmanager.register(suite_options._Suite(RENAMED))
"""
TEST = """
import pytest

@pytest.mark.promise("EXT-001")
async def test_options(pytestconfig):
    option = pytestconfig.getoption
    assert (option("--bursts"), option("bursts"), option("--burst-seed"), option("--target")) == (7, 7, 3, "mine.yaml")
"""


def run(folder: Path, conftest: str, *more: str) -> str:
    """The output of a pytest with these options and ``more``."""
    (folder / "conftest.py").write_text(conftest)
    (folder / "test_it.py").write_text(TEST)
    (folder / "pytest.ini").write_text("[pytest]\n")
    options = ("-q", "--strict-markers", "--gpu-bursts=7", "--gpu-target", "mine.yaml")
    argv = [sys.executable, "-m", "pytest", *options, *more]
    variables = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(argv, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize("processes", ["0", "1"])
def test_cases_read_their_options_by_the_names_of_our_checkout(tmp_path: Path, processes: str) -> None:
    """Each begins with ``--gpu-``, in the processes of pytest-xdist too, and the plugin's are not asked for twice."""
    output = run(tmp_path, CONFTEST.replace("OTHER", ""), "-n", processes)

    assert "1 passed" in output, output


@pytest.mark.parametrize("name", ["--bursts", "--burst-seed"])
def test_an_option_of_another_plugin_is_not_taken_for_ours(tmp_path: Path, name: str) -> None:
    """A case would read that plugin's value, so the run ends with its name."""
    other = f'parser.addoption("{name}", default="theirs")'

    assert f"another plugin has an option {name}" in run(tmp_path, CONFTEST.replace("OTHER", other))
