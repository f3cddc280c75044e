"""Facts that follow from several records."""

from __future__ import annotations

from fake_nvml.core.layout import UNKNOWN64, blank
from fake_nvml.core.records import free_bytes


def test_a_card_of_unknown_memory_has_room_for_any_amount() -> None:
    """The largest number is no amount: it stands for one that is not known."""
    content = blank()
    content.header.card_count = 1

    assert free_bytes(content, 0) == UNKNOWN64 - 1
    content.cards[0].memory_total, content.cards[0].memory_reserved = 1000, 24
    assert free_bytes(content, 0) == 976
