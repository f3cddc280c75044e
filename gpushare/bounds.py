"""How much of anything from outside is taken: one table, with the reason beside each number.

Everything that a pod's author, a node, another program or a stranger can make large is held to one of these. Each reader asks
``exceeded`` before it does work that grows with the input, and refuses with the bound's own text.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Bound(NamedTuple):
    """At most ``most`` ``unit`` of ``what``; ``0`` is a valid amount."""

    what: str
    most: int
    unit: str

    def exceeded(self, amount: int) -> bool:
        """Is this more than is taken?"""
        return amount > self.most

    @property
    def refusal(self) -> str:
        """Why more is refused. Constant, so that the scheduler can count it over nodes."""
        return f"{self.what} is limited to {self.most} {self.unit}"


# A node has at most 16 cards in machines of today; a MIG layout makes up to seven devices of each.
CARDS_OF_A_NODE: Final = Bound("the number of GPUs of a node", 128, "GPUs")
# A list of models or UUIDs that a person writes; the API server alone would take 256 KiB.
WISH_CHARACTERS: Final = Bound("an annotation that wishes for a card", 4096, "characters")
WISH_ENTRIES: Final = Bound("a list of wishes", 64, "entries")
