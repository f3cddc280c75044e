"""Which of the cards that hold a request is the best: the policies of a pod or of the cluster. Pure.

``binpack`` fills what is in use and ``spread`` uses all evenly, card by card and node by node. ``fragmentation`` keeps what is
free useful for the pods that are expected: it takes the card, and the node, on which least comes to be wasted (``model.outlook``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gpushare import wire
from gpushare.model.outlook import Card, Outlook

# From a card's free and total units; the lowest rank is best.
Rank = Callable[[int, int], float]


def _binpack(free: int, _total: int) -> float:
    return free


def _spread(free: int, total: int) -> float:
    return -free / total


# For cards that hold what is asked for.
RANKS: Final[Mapping[str, Rank]] = {wire.POLICY_BINPACK: _binpack, wire.POLICY_SPREAD: _spread}


def without(cards: tuple[Card, ...], card: Card, units: int) -> tuple[Card, ...]:
    """A node's cards after ``units`` of one of them are taken."""
    left = list(cards)
    left.remove(card)
    free, total, model = card
    return tuple(sorted([*left, (free - units, total, model)]))


def fragments_without(
    outlook: Outlook, cards: tuple[Card, ...], cpu_milli: int | None, card: Card, units: int
) -> float:
    """Units of these cards that the next pod could not use after ``units`` of one are taken: only this differs between cards."""
    return outlook.fragments(without(cards, card, units), cpu_milli)
