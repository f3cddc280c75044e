"""Promises of gpushare.model.device."""

from __future__ import annotations

from dataclasses import replace

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


def test_a_booked_card_is_the_same_card() -> None:
    """Every other fact stays, also one that is added later."""
    card = Device(3, 14, 2, healthy=False, uuid="u", model="m", slots=4, slots_used=1, numa=1, unit_mib=1024)

    assert card.booked(5, 2) == replace(card, used=5, slots_used=2)
