from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.embedded.scheduling.scheduler_quantities import amount, amounts


@pytest.mark.parametrize(
    ("resource", "quantity", "expected"),
    [
        ("cpu", "500m", 500),
        ("cpu", "2", 2000),
        ("cpu", 1, 1000),
        ("cpu", "0.1", 100),
        ("cpu", "1n", 1),
        ("memory", "1Gi", 1024**3),
        ("memory", "1.5Ki", 1536),
        ("memory", "1e3", 1000),
        ("memory", "8E", 8 * 10**18),
        ("memory", "3E2", 300),
        ("aliyun.com/gpu-mem", "10k", 10_000),
        ("aliyun.com/gpu-mem", "1500m", 2),
        ("pods", "110", 110),
    ],
)
def test_amount_counts_as_the_scheduler_does(resource: str, quantity: object, expected: int) -> None:
    """cpu in thousandths, the rest in whole units, rounded up."""
    assert expected == amount(resource, quantity)


@pytest.mark.parametrize("text", ["", "1 Gi", "x", "1KI", "Gi", "1.2.3", "--1", "1e"])
def test_amount_refuses_what_is_no_quantity(text: str) -> None:
    """The error has the text."""
    with pytest.raises(ValueError, match="no Kubernetes quantity"):
        amount("memory", text)


@given(st.integers(0, 2**32), st.sampled_from(["", "k", "Mi", "Gi"]))
def test_amount_of_whole_numbers_is_exact(number: int, suffix: str) -> None:
    """Suffixes multiply by powers of 1000 and 1024."""
    scale = {"": 1, "k": 1000, "Mi": 1024**2, "Gi": 1024**3}[suffix]

    assert number * scale == amount("memory", f"{number}{suffix}")


def test_amounts_of_nothing_is_nothing() -> None:
    """A missing map is an empty one."""
    assert {} == amounts(None)
