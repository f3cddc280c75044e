"""A stranger's repository, with folders called as ours, is tested from wheels alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.pytest_plugin import try_wheels


@pytest.mark.thorough("builds wheels and fills two environments")
def test_the_sample_passes_in_an_empty_environment(tmp_path: Path) -> None:
    """Its test, simulated cards alone, and cases by ``--pyargs``, with nothing of the checkout on the path."""
    assert try_wheels.main(["--wheels", str(tmp_path)]) == 0
    assert sorted(wheel.name.partition("-")[0] for wheel in tmp_path.glob("*.whl")) == [
        "fake_nvml",
        "gpushare_scheduler",
        "pytest_gpushare",
    ]
