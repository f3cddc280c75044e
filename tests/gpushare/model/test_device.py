"""Promises of gpushare.model.device."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpushare.model.device import Device


@given(st.integers(0, 100), st.integers(0, 300))
def test_free_is_never_negative_and_never_more_than_total(total: int, used: int) -> None:
    """Used beyond total (defect D12 of the original: it wrapped) leaves nothing."""
    assert Device(0, total, used).free == max(0, total - used) <= total


def test_a_sick_card_has_nothing_free() -> None:
    """Whatever it holds."""
    assert Device(0, 14, 3, healthy=False).free == 0
