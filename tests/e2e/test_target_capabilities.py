"""A case that needs what a target does not declare is not applicable to it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from clusters.targets import CAPABILITIES, FOLDER, load_target

_ROOT = Path(__file__).parents[2]


def test_what_is_not_declared_is_not_applicable(tmp_path: Path) -> None:
    """Such a case is skipped with the reason before anything is started."""
    declared = {"capabilities": sorted(CAPABILITIES - {"explain"})}
    target = tmp_path / "t.yaml"
    target.write_text(yaml.safe_dump(yaml.safe_load((FOLDER / "gpushare.yaml").read_text()) | declared))
    words = ["e2e/extender/test_extender_explain.py", "--target", str(target), "-q", "-rs", "-p", "no:cacheprovider"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "--verdicts", str(tmp_path)], cwd=_ROOT, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "not applicable: target gpushare does not declare explain" in run.stdout
    assert " passed" not in run.stdout


@pytest.mark.parametrize("name", ["gpushare", "gpushare-slots"])
def test_our_targets_declare_everything(name: str) -> None:
    """No case is left out for our own programs, and the page explains each capability."""
    assert load_target(name).capabilities == CAPABILITIES
    page = (FOLDER / "README.md").read_text()
    assert [one for one in CAPABILITIES if f"`{one}`" not in page] == []
