"""The nodes and pods of a simulated cluster, as they are at the start. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
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


class Cards:
    """The cards of all nodes, and in ``used`` the units that pods have on each, by node and index.

    The index None stands for all cards of the node.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes = {node.name: node for node in nodes}
        self.used = Counter[tuple[str, int | None]]()

    def use(self, pod: Pod, units: int) -> None:
        """The pod has so many units more on its card and node."""
        for card in {None, pod.card}:
            self.used[pod.node, card] += units

    def size(self, node: str, card: int | None) -> int:
        """The units of a card, or of all cards of the node: 0 for one that is not there."""
        found = self._nodes.get(node)
        if found is None or card is None:
            return found.cards * found.card_units if found is not None else 0
        return found.card_units if card < found.cards else 0


@dataclass(frozen=True, slots=True)
class World:
    """All that a simulated API server shows at first. ``sizes``: the units of pods that come later, each with its weight."""

    nodes: tuple[Node, ...]
    running: tuple[Pod, ...]
    sizes: Mapping[int, float] = field(default_factory=lambda: {1: 1.0})

    def size_for(self, share: float) -> int:
        """The size of a pod that fits as nearly as can be on this share of the nodes: of several the largest; for 0 on none."""
        rooms = self.rooms()
        sizes = range(1, max(rooms) + 2)
        if not share:
            return sizes[-1]
        hold = {units: sum(room >= units for room in rooms) / len(rooms) for units in sizes}
        return min(sizes, key=lambda units: (abs(hold[units] - share), -units))

    def rooms(self) -> list[int]:
        """The free units on the emptiest card of each node."""
        free = {node.name: [node.card_units] * node.cards for node in self.nodes}
        for pod in self.running:
            if pod.card is not None:
                free[pod.node][pod.card] -= pod.units
        return [max(cards) for cards in free.values()]
