"""The nodes and pods of a simulated cluster, as they are at the start. Nouns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

NAMESPACE: Final = "load"


class Node(NamedTuple):
    """A node: a number of equal cards of ``card_units`` each. ``model`` is "" if it is not published (a node of the Go plugin).

    The cards are at ``numa`` NUMA nodes.
    """

    name: str
    cards: int
    card_units: int
    model: str = ""
    card_mib: int = 0
    labels: Mapping[str, str] = {}  # of a NamedTuple: shared, and never changed
    numa: int = 1


class Pod(NamedTuple):
    """A pod of one container. ``node`` and ``card`` are its place; a pod that waits has no node.

    ``card`` is None if the extender that bound the pod wrote no index.
    """

    name: str
    units: int
    node: str = ""
    card: int | None = 0
    card_units: int = 0


@dataclass(frozen=True, slots=True)
class World:
    """All that a simulated API server shows at first. ``sizes``: the units of pods that come later, each with its weight."""

    nodes: tuple[Node, ...]
    running: tuple[Pod, ...]
    waiting: tuple[Pod, ...] = ()
    sizes: Mapping[int, float] = field(default_factory=lambda: {1: 1.0})

    def fitting(self, units: int) -> float:
        """The share of the nodes that have a card with this much room now."""
        return _share(self._rooms(), units)

    def size_for(self, share: float) -> int:
        """The size of a pod that fits as nearly as can be on this share of the nodes: of several the largest; for 0 on none."""
        rooms = self._rooms()
        sizes = range(1, max(rooms) + 2)
        if not share:
            return sizes[-1]
        return min(sizes, key=lambda units: (abs(_share(rooms, units) - share), -units))

    def _rooms(self) -> list[int]:
        """The free units on the emptiest card of each node."""
        free = {node.name: [node.card_units] * node.cards for node in self.nodes}
        for pod in self.running:
            if pod.card is not None:
                free[pod.node][pod.card] -= pod.units
        return [max(cards) for cards in free.values()]


def _share(rooms: Sequence[int], units: int) -> float:
    """The share of nodes with this much room that hold the amount."""
    return sum(room >= units for room in rooms) / len(rooms)
