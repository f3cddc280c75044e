"""Promises of .github/workflows: GitHub can read each of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clusters.processes.commands import output_of
from clusters.provider import ClusterError
from tests.tracked_files import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
pytestmark = pytest.mark.thorough("actionlint reads every workflow")


async def checked(actionlint: Path, *workflows: Path) -> str:
    """The report of actionlint. Raises ClusterError with it if that is an error."""
    # Without shellcheck and pyflakes, which a machine may have or not have.
    flags = ["-shellcheck=", "-pyflakes=", "-no-color"]
    return await output_of([str(actionlint), *flags, *map(str, workflows)], dict(os.environ))


async def test_github_can_read_every_workflow(actionlint: Path) -> None:
    """Fields, expressions, inputs of reused workflows and of actions are known and of their types."""
    assert WORKFLOWS
    assert await checked(actionlint, *WORKFLOWS) == ""


async def test_an_unknown_expression_is_found(actionlint: Path, tmp_path: Path) -> None:
    """The check reports a name that no context has."""
    broken = tmp_path / "broken.yaml"
    text = (ROOT / ".github" / "workflows" / "ci.yaml").read_text()
    broken.write_text(text.replace("matrix.python", "matrix.ptyhon", 1))

    with pytest.raises(ClusterError, match="ptyhon"):
        await checked(actionlint, broken)
