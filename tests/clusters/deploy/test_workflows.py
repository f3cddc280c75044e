"""Promises of .github/workflows: GitHub can read each of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clusters.processes.commands import output_of
from tests.tracked_files import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
pytestmark = pytest.mark.thorough("actionlint reads every workflow")


async def test_github_can_read_every_workflow(actionlint: Path) -> None:
    """Fields, expressions, inputs of reused workflows and of actions are known and of their types."""
    assert WORKFLOWS
    # Without shellcheck and pyflakes, which a machine may have or not have.
    flags = ["-shellcheck=", "-pyflakes=", "-no-color"]
    assert await output_of([str(actionlint), *flags, *map(str, WORKFLOWS)], dict(os.environ)) == ""
