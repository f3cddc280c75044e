"""A case that needs what a target does not declare is not applicable to it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from clusters.provider import ClusterError
from clusters.targets import CAPABILITIES, FOLDER, load_target

_ROOT = Path(__file__).parents[2]


def target_with(path: Path, capabilities: list[str]) -> Path:
    """Our programs, as a target that declares these capabilities."""
    path.write_text(
        yaml.safe_dump(yaml.safe_load((FOLDER / "gpushare.yaml").read_text()) | {"capabilities": capabilities})
    )
    return path


def test_what_is_not_declared_is_not_applicable(tmp_path: Path) -> None:
    """Such a case is skipped with the reason before anything is started."""
    target = target_with(tmp_path / "t.yaml", sorted(CAPABILITIES - {"explain"}))
    words = ["e2e/extender/test_extender_explain.py", "--target", str(target), "-q", "-rs", "-p", "no:cacheprovider"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "--verdicts", str(tmp_path)], cwd=_ROOT, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "not applicable: target gpushare does not declare explain" in run.stdout
    assert " passed" not in run.stdout


def test_a_capability_that_is_none_is_refused(tmp_path: Path) -> None:
    """A misspelt capability would make cases not applicable, so it is an error."""
    with pytest.raises(ClusterError, match=r"explane.*capabilities"):
        load_target(str(target_with(tmp_path / "t.yaml", ["explane"])))


@pytest.mark.parametrize("name", ["gpushare", "gpushare-slots"])
def test_our_targets_declare_everything(name: str) -> None:
    """No case is left out for our own programs, and the page explains each capability."""
    assert load_target(name).capabilities == CAPABILITIES
    page = (FOLDER / "README.md").read_text()
    assert [one for one in CAPABILITIES if f"`{one}`" not in page] == []
