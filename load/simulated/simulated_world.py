"""The nodes and pods of a simulated cluster, as they are at the start, and the cluster that the bench measures on. Pure."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

NAMESPACE: Final = "load"
# The cluster that the bench measures on: cards of a node, and units of a card.
CARDS: Final = 8
CARD_UNITS: Final = 32
# The request of a pod that fits on all nodes, on half of them, on none; in units.
UNITS_OF: Final = {"all": 1, "half": 4, "none": 16}
FITS: Final = tuple(UNITS_OF)
# Pods of each of these sizes that wait, and are asked about in turn.
ASKERS: Final = 200
FEWEST_PODS: Final = CARDS
MOST_PODS: Final = 4 * CARDS


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
    waiting: tuple[Pod, ...] = ()
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


def measured(nodes: int, pods: int, seed: int, binds: int = 0) -> World:
    """Nodes of 8 cards with 8 to 32 pods each, the same for the same seed; pods that wait to be asked about, or to be bound.

    On half of the nodes, the roomy ones, some card has 4 to 8 units free; on the others the largest free block is 1 to 3 units.
    So a pod that asks for 1 unit fits on all nodes, one that asks for 4 on half of them, and one that asks for 16 on none,
    though every card is large enough: the refusal that makes the longest answer.

    Raises ValueError if the pods would be fewer than 8 or more than 32 a node.
    """
    # No secret; and another than that of the questions, which would choose the same nodes.
    rng = random.Random(f"world {seed}")
    roomy = roomy_nodes(nodes, seed)
    running: list[Pod] = []
    for node, count in enumerate(_counts(nodes, pods, rng)):
        for card, free in enumerate(_free_units(node in roomy, rng)):
            on_card = count // CARDS + (card < count % CARDS)
            for units in _parts(CARD_UNITS - free, on_card, rng):
                running.append(Pod(f"runs-{len(running):06}", units, node_name(node), card, CARD_UNITS))
    askers = [Pod(asker_name(fit, number), units) for fit, units in UNITS_OF.items() for number in range(ASKERS)]
    binders = [Pod(binder_name(number), 1) for number in range(binds)]
    named = tuple(Node(node_name(number), CARDS, CARD_UNITS) for number in range(nodes))
    return World(named, tuple(running), (*askers, *binders))


def roomy_nodes(nodes: int, seed: int) -> frozenset[int]:
    """The numbers of the nodes with 4 units or more free on one card."""
    return frozenset(random.Random(f"roomy {seed}").sample(range(nodes), nodes // 2))


def node_name(number: int) -> str:
    """The name of the node of this number."""
    return f"node-{number:05}"


def asker_name(fit: str, number: int) -> str:
    """The name of a pod that waits while its question is asked; there are ``ASKERS`` of each ``fit``."""
    return f"asks-{fit}-{number % ASKERS:03}"


def binder_name(number: int) -> str:
    """The name of a pod of 1 unit that waits to be bound."""
    return f"binds-{number:05}"


def _counts(nodes: int, pods: int, rng: random.Random) -> list[int]:
    """How many pods each node has: 8, and the rest dealt out in lumps, so that few nodes have many."""
    if not FEWEST_PODS * nodes <= pods <= MOST_PODS * nodes:
        raise ValueError(f"{pods} pods on {nodes} nodes are not {FEWEST_PODS} to {MOST_PODS} a node")
    counts = [FEWEST_PODS] * nodes
    left = pods - FEWEST_PODS * nodes
    while left:
        node = rng.randrange(nodes)
        lump = min(rng.randint(1, MOST_PODS - FEWEST_PODS), MOST_PODS - counts[node], left)
        counts[node] += lump
        left -= lump
    return counts


def _free_units(is_roomy: bool, rng: random.Random) -> list[int]:
    """The free units of each card; one of them, by chance, has what makes the node roomy, or at least 1."""
    largest = 8 if is_roomy else 3
    free = [rng.randint(0, largest) for _ in range(CARDS)]
    free[rng.randrange(CARDS)] = rng.randint(4 if is_roomy else 1, largest)
    return free


def _parts(units: int, count: int, rng: random.Random) -> list[int]:
    """So many pods that take all the units, at least 1 each."""
    cuts = sorted(rng.sample(range(1, units), count - 1))
    return [after - before for before, after in zip([0, *cuts], [*cuts, units], strict=True)]
