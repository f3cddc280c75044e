"""Which cards a simulated container sees."""

from __future__ import annotations

import pytest

from clusters.kubelet.kubelet_cards import RealCard, visible_cards

CARDS = [RealCard(index, f"GPU-{index}", "Tesla T4", 15079, 0) for index in (0, 1)]


@pytest.mark.parametrize(
    ("value", "indices"),
    [
        *(("1,0", [1, 0]), ("0,0", [0]), ("GPU-1,0", [1, 0]), ("all", [0, 1])),
        *((value, []) for value in ("none", "void", "", None, "2", "0,7", "no-gpu-has-10GiB-to-run", "-1")),
    ],
)
def test_the_variable_says_which_cards_are_seen(value: str | None, indices: list[int]) -> None:
    """Cards come in the variable's order; whatever names no card of the node makes none visible."""
    assert [card.index for card in visible_cards(value, CARDS)] == indices
