"""Driver versions."""

from __future__ import annotations

import pytest

from fake_nvml.core.drivers import at_branch, branch, complete, cuda_version
from fake_nvml.fake_nvml_errors import CatalogueError


@pytest.mark.parametrize(("driver", "expected"), [("418.87", 418), ("418.87.00", 418), ("535.104.05", 535)])
def test_branch_is_the_first_number(driver: str, expected: int) -> None:
    """Versions of two and of three numbers are read."""
    assert branch(driver) == expected


@pytest.mark.parametrize("driver", ["", "418", "R418", "418.", "v535.1", "535.104.05.1", "4.1"])
def test_what_is_no_version_is_refused_with_an_example(driver: str) -> None:
    """The error has a version as it should be."""
    text = "is no driver version; write it as 418, 418.87 or 535.104.05"
    with pytest.raises(CatalogueError, match=f"^driver {driver!r} {text}$"):
        branch(driver)


def test_a_branch_between_two_steps_has_the_earlier_one() -> None:
    """Before the first step there is none."""
    assert at_branch({410: "a", 450: "b"}, 449) == "a"
    assert at_branch({410: "a", 450: "b"}, 450) == "b"
    assert at_branch({410: "a"}, 409) is None


def test_a_driver_before_all_is_refused() -> None:
    """The error calls it older than any."""
    with pytest.raises(
        CatalogueError, match="^driver 304.1 is older than any that can be simulated; the first is 375$"
    ):
        cuda_version("304.1")


@pytest.mark.parametrize(
    ("driver", "full", "cuda"),
    [
        ("418", "418.87.00", 10010),
        ("535.54.03", "535.54.03", 12020),
        ("536", "536.00", 12020),
        ("375.66", "375.66", 8000),
        ("580.159.04", "580.159.04", 13000),
        ("590.48.01", "590.48.01", 13010),
        ("596.49", "596.49", 13020),
        ("615", "615.71.09", 13040),
    ],
)
def test_a_bare_branch_is_one_of_its_releases(driver: str, full: str, cuda: int) -> None:
    """A branch that is not known has the CUDA version of the one before it."""
    assert complete(driver) == full
    assert cuda_version(full) == cuda
