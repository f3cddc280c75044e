"""Promises of clusters.embedded.apiserver.api_quantities."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.embedded.apiserver.api_quantities import canonical, parse


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("10000", "10k"),
        ("1", "1"),
        ("0", "0"),
        ("0Gi", "0"),
        ("-1", "-1"),
        ("+5", "+5"),
        ("1500m", "1500m"),
        ("1000m", "1"),
        ("1.5", "1500m"),
        (".5", "500m"),
        ("1Ki", "1Ki"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("1.5Ki", "1536"),
        ("1e3", "1e3"),
        ("10e2", "1e3"),
        ("12Ei", "9223372036854775807"),
        ("1E", "1E"),
        ("0.1n", "1m"),
        ("100M", "100M"),
        ("1000000", "1M"),
    ],
)
def test_a_quantity_is_stored_in_one_way(written: str, stored: str) -> None:
    """A quantity is stored as resource.Quantity writes it: the family stays, no fraction, the largest suffix."""
    assert stored == canonical(written)


@pytest.mark.parametrize("text", ["", "one", "1 Gi", "1KI", "--1", "1.2.3", "0x1", "1e", "9" * 200, "١"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    """Never a guess; not even at digits of other scripts."""
    with pytest.raises(ValueError, match="quantities must match"):
        parse(text)


@given(st.integers(-(2**62), 2**62), st.sampled_from(["", "n", "u", "m", "k", "M", "Ki", "Mi"]))
def test_the_canonical_form_is_a_fixed_point_of_the_same_value(number: int, suffix: str) -> None:
    """Writing it again changes nothing, and no value is lost."""
    text = f"{number}{suffix}"
    stored = canonical(text)

    assert parse(stored) == parse(text)
    assert canonical(stored) == stored
