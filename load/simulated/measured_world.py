"""The cluster that is measured on: nodes of 8 cards with 8 to 32 pods each, the same for the same seed. Pure.

On half of the nodes, the roomy ones, some card has 4 to 8 units free; on the others the largest free block is 1 to 3 units. So a
pod that asks for 1 unit fits on all nodes, one that asks for 4 on half of them, and one that asks for 16 on none, though
every card is large enough: the refusal that makes the longest answer.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final, NamedTuple

from load.simulated import simulated_world as simulated_world

CARDS: Final = 8
CARD_UNITS: Final = 32
# The request of a pod that fits on all nodes, on half of them, on none; in units.
UNITS_OF: Final = {"all": 1, "half": 4, "none": 16}
FITS: Final = tuple(UNITS_OF)
# Pods of each of these sizes that wait, and are asked about in turn.
ASKERS: Final = 200
FEWEST_PODS: Final = CARDS
MOST_PODS: Final = 4 * CARDS


class Placed(NamedTuple):
    """A pod that runs: which node (by number) and card it is on, and its units."""

    node: int
    card: int
    units: int


@dataclass(frozen=True, slots=True)
class World:
    """``pods`` by node; ``roomy`` are the numbers of the nodes with 4 units or more free on one card."""

    nodes: int
    pods: tuple[Placed, ...]
    roomy: tuple[int, ...]


def build(nodes: int, pods: int, seed: int) -> World:
    """A world of these nodes and pods. Raises ValueError if the pods would be fewer than 8 or more than 32 a node."""
    rng = random.Random(
        f"world {seed}"
    )  # no secret; and another than that of the questions, which would choose the same nodes
    roomy = frozenset(rng.sample(range(nodes), nodes // 2))
    placed: list[Placed] = []
    for node, count in enumerate(_counts(nodes, pods, rng)):
        for card, free in enumerate(_free_units(node in roomy, rng)):
            on_card = count // CARDS + (card < count % CARDS)
            placed.extend(Placed(node, card, units) for units in _parts(CARD_UNITS - free, on_card, rng))
    return World(nodes, tuple(placed), tuple(sorted(roomy)))


def simulated(world: World, binds: int) -> simulated_world.World:
    """The world as a simulated API server shows it, with all pods that wait."""
    nodes = tuple(simulated_world.Node(node_name(number), CARDS, CARD_UNITS) for number in range(world.nodes))
    running = tuple(
        simulated_world.Pod(pod_name(number), one.units, node_name(one.node), one.card, CARD_UNITS)
        for number, one in enumerate(world.pods)
    )
    asking = tuple(simulated_world.Pod(name, units) for name, units in waiting(binds).items())
    return simulated_world.World(nodes, running, asking)


def node_name(number: int) -> str:
    """The name of the node of this number."""
    return f"node-{number:05}"


def pod_name(number: int) -> str:
    """The name of the pod that runs at this place of ``World.pods``."""
    return f"runs-{number:06}"


def asker_name(fit: str, number: int) -> str:
    """The name of a pod that waits while its question is asked; there are ``ASKERS`` of each ``fit``."""
    return f"asks-{fit}-{number % ASKERS:03}"


def binder_name(number: int) -> str:
    """The name of a pod of 1 unit that waits to be bound."""
    return f"binds-{number:05}"


def waiting(binds: int) -> dict[str, int]:
    """All pods that wait, with their units."""
    askers = {asker_name(fit, number): units for fit, units in UNITS_OF.items() for number in range(ASKERS)}
    return askers | {binder_name(number): 1 for number in range(binds)}


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
