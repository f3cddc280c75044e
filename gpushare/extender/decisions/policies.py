"""Which of the cards that hold a request is the best: the policies of a pod or of the cluster. Pure.

``binpack`` fills what is in use and ``spread`` uses all evenly, card by card and node by node. ``fragmentation`` keeps what is
free useful: it takes the card on which the memory that usual requests cannot use grows least (the expected fragmentation
gradient of "Beware of Fragmentation", USENIX ATC 2023, for requests that lie on one card each).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gpushare import wire

# How often each size of a request is asked for, in units: parts of 1.
Sizes = tuple[tuple[int, float], ...]
# Of a card's free and total units, the units that it would give, and what is usual.
Rank = Callable[[int, int, int, Sizes], float]

# So many sizes stand for all: the rest is rare, and each costs time at each card.
_MOST_SIZES: Final = 32


def usual_sizes(counts: Mapping[int, int]) -> Sizes:
    """The sizes that are booked most often, with their share of all; smaller sizes first."""
    booked = (item for item in counts.items() if item[1] > 0)
    most = sorted(booked, key=lambda item: (-item[1], item[0]))[:_MOST_SIZES]
    total = sum(count for _, count in most)
    return tuple((size, count / total) for size, count in sorted(most))


def fragment(free: int, sizes: Sizes) -> float:
    """How much of a card's free memory the usual requests are expected to be unable to use, in units."""
    return free * sum(share for size, share in sizes if size > free)


def _binpack(free: int, _total: int, _units: int, _sizes: Sizes) -> float:
    return free


def _spread(free: int, total: int, _units: int, _sizes: Sizes) -> float:
    return -free / total


def gradient(free: int, _total: int, units: int, sizes: Sizes) -> float:
    """How much more of a card becomes useless, in units."""
    return fragment(free - units, sizes) - fragment(free, sizes)


# The least is the best; for cards that hold the units.
RANKS: Final[Mapping[str, Rank]] = {
    wire.POLICY_BINPACK: _binpack,
    wire.POLICY_SPREAD: _spread,
    wire.POLICY_FRAGMENTATION: gradient,
}
