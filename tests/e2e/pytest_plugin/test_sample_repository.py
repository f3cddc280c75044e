"""A stranger's repository, with folders called as ours, is tested from wheels alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.pytest_plugin import try_wheels
from tests.tracked_files import ROOT

SAMPLE = ROOT / try_wheels.SAMPLE


@pytest.mark.thorough("builds wheels and fills two environments")
def test_the_sample_passes_in_an_empty_environment(tmp_path: Path) -> None:
    """Its test, simulated cards alone, and cases by ``--pyargs``, with nothing of the checkout on the path."""
    assert try_wheels.main(["--wheels", str(tmp_path)]) == 0
    assert sorted(wheel.name.partition("-")[0] for wheel in tmp_path.glob("*.whl")) == [
        "fake_nvml",
        "gpushare_scheduler",
        "pytest_gpushare",
    ]


def test_the_sample_has_folders_and_options_called_as_ours() -> None:
    """Else it would show nothing."""
    assert all((SAMPLE / name / "__init__.py").is_file() for name in ("clusters", "e2e", "load", "tests"))
    assert '"--cluster", "--target"' in (SAMPLE / "conftest.py").read_text()


def test_the_checkout_is_not_on_the_path_of_what_is_tried() -> None:
    """Variables that lead Python or pytest elsewhere are taken out, and others stay."""
    given = {"PATH": "/bin", "PYTHONPATH": "/checkout", "PYTEST_ADDOPTS": "-x", "VIRTUAL_ENV": "/v", "HOME": "/h"}

    assert try_wheels.bare(given) == {"PATH": "/bin", "HOME": "/h"}
