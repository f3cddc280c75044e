"""Promises of gpushare.model.quantity."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpushare.errors import InvalidQuantityError
from gpushare.model.quantity import MemoryUnit, parse_milli, parse_quantity, parse_units


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0), ("3", 3), ("+3", 3), ("10k", 10_000), ("1Ki", 1024), ("2Mi", 2 * 1024**2), ("1Ei", 1024**6),
        ("1e3", 1000), ("1E3", 1000), ("12e-1", Fraction(6, 5)), ("1E", 10**18), ("1500m", Fraction(3, 2)), ("5.", 5),
        ("0" * 63 + "7", 7),
        (".5", Fraction(1, 2)), ("-1", -1), ("1u", Fraction(1, 10**6)), ("1n", Fraction(1, 10**9)), ("7G", 7 * 10**9),
    ],
)  # fmt: skip
def test_parse_quantity_reads_every_form_that_kubernetes_writes(text: str, value: Fraction) -> None:
    """Binary and decimal suffixes, exponents, signs and bare dots have exact values."""
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "a",
        "1 ",
        " 1",
        "1kk",
        "1ki",
        "1K",
        "--1",
        "1.2.3",
        "١",
        "1_0",
        "0x10",
        "9" * 65,
        "1e9999",
        "inf",
        "nan",
        ".",
    ],
)
def test_parse_quantity_refuses_what_kubernetes_refuses(text: str) -> None:
    """Anything outside the grammar is an error that names the text."""
    with pytest.raises(InvalidQuantityError, match=re.escape(f"{text[:64]!r} is not a quantity (expected a number")):
        parse_quantity(text)


@given(st.integers(0, 2**53), st.sampled_from(["", "k", "M", "G", "Ki", "Mi"]))
def test_parse_units_and_written_numbers_agree(number: int, suffix: str) -> None:
    """A whole number with a suffix is that number times the suffix: the API server may write thousands as k, M, G."""
    factor = {"": 1, "k": 1000, "M": 10**6, "G": 10**9, "Ki": 1024, "Mi": 1024**2}[suffix]
    if number * factor <= 2**63 - 1:
        assert parse_units(f"{number}{suffix}") == number * factor


@pytest.mark.parametrize("text", ["1.5", "-1", "1500m", "9223372036854775808", "1e-1"])
def test_parse_units_refuses_fractions_negatives_and_overflow(text: str) -> None:
    """Units are whole, not negative, and an int64."""
    with pytest.raises(InvalidQuantityError, match="not a whole"):
        parse_units(text)


@pytest.mark.parametrize(("text", "mib"), [("GiB", 1024), ("MiB", 1), ("256MiB", 256), ("2GiB", 2048)])
def test_memory_unit_reads_its_three_forms(text: str, mib: int) -> None:
    """GiB, MiB, and a number of either."""
    assert MemoryUnit.parse(text) == MemoryUnit(mib)


@pytest.mark.parametrize("text", ["", "gib", "0MiB", "MB", "-1MiB", "1.5GiB", "KiB"])
def test_memory_unit_refuses_anything_else(text: str) -> None:
    """An unknown unit is an error, not a guess."""
    with pytest.raises(InvalidQuantityError, match="memory unit"):
        MemoryUnit.parse(text)


@given(st.integers(1, 10**5))
@example(1)
@example(1024)
def test_memory_unit_reads_back_what_it_writes(mib: int) -> None:
    """A memory unit is read back as it was written."""
    assert MemoryUnit.parse(str(MemoryUnit(mib))) == MemoryUnit(mib)


@given(st.integers(0, 10**6), st.integers(1, 4096))
def test_units_of_never_promises_more_than_the_card_has(mib: int, unit: int) -> None:
    """Units times their size fit in the card, and one more would not."""
    units = MemoryUnit(unit).units_of(mib)

    assert units * unit <= mib < (units + 1) * unit


@pytest.mark.parametrize(
    ("text", "milli"), [("500m", 500), ("0.5", 500), (2, 2000), ("1u", 1), ("-1", 0), ("much", 0), ("1Ki", 1_024_000)]
)
def test_thousandths_are_rounded_up(text: str | int, milli: int) -> None:
    """Thousandths are rounded up as Kubernetes counts CPU. A text that is no quantity, or negative, is nothing."""
    assert parse_milli(text) == milli
