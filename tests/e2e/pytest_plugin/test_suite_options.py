"""The options of the cases, as a repository of others has them; `make wheels` reads them by their names there."""

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
    group = suite_options._Parser(parser, RENAMED).getgroup("gpushare")
    group.addoption("--bursts", type=int)
    group.addoption("--burst-seed", type=int, default=3)
    parser.addoption("OTHER", default="theirs")

def pytest_configure(config):
    config.pluginmanager.register(suite_options._Suite(RENAMED))
"""


@pytest.mark.parametrize("name", ["--bursts", "--burst-seed"])
def test_an_option_of_another_plugin_is_not_taken_for_ours(tmp_path: Path, name: str) -> None:
    """A case would read that plugin's value, so the run ends with its name."""
    (tmp_path / "conftest.py").write_text(CONFTEST.replace("OTHER", name))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    argv = [sys.executable, "-m", "pytest", "-q", "--gpu-bursts=7"]
    variables = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(argv, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)

    assert f"another plugin has an option {name}" in done.stdout + done.stderr
