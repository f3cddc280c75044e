"""A simulated cluster as data: pools of equal nodes, and how many pods of which sizes run on them. Pure but for ``read``."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Annotated, Final

import msgspec

from fake_nvml.box import model
from fake_nvml.core.box_cards import CardModel
from fake_nvml.fake_nvml_errors import CatalogueError
from load.load_commands import read_data
from load.simulated.simulated_objects import Node, Pod, World

# Cards are as the newest driver counts them.
_DRIVER: Final = "580.65"
_MIB_A_UNIT: Final = 1024
_MOST_NODES: Final = 50_000


class Pool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes that are alike: ``cards`` of a model of ``fake_nvml/cards.yaml``, and ``pods`` a node on average.

    ``numa``: the cards are at this many NUMA nodes, one half at the first of two.
    """

    name: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$")]
    nodes: Annotated[int, msgspec.Meta(ge=1, le=_MOST_NODES)]
    card: str
    cards: Annotated[int, msgspec.Meta(ge=1, le=32)]
    pods: Annotated[int, msgspec.Meta(ge=0, le=500)] = 0
    labels: dict[str, str] = {}
    numa: Annotated[int, msgspec.Meta(ge=1, le=16)] = 1

    def __post_init__(self) -> None:
        """Raises ValueError for a card that is in no catalogue, or that the driver does not know."""
        try:
            _card_units(model(self.card))
        except CatalogueError as error:
            raise ValueError(str(error)) from error


class ClusterPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file. ``units``: which sizes pods have, in GiB, each with its weight; pods that come later are of the same sizes."""

    units: Annotated[
        dict[Annotated[int, msgspec.Meta(ge=1)], Annotated[float, msgspec.Meta(gt=0)]], msgspec.Meta(min_length=1)
    ]
    pools: Annotated[list[Pool], msgspec.Meta(min_length=1)]
    seed: Annotated[int, msgspec.Meta(ge=0)] = 1

    def __post_init__(self) -> None:
        """Raises ValueError for what no field alone is wrong with."""
        if not all(map(math.isfinite, self.units.values())):
            raise ValueError("a weight of units is not a finite number")
        if len({pool.name for pool in self.pools}) != len(self.pools):
            raise ValueError("two pools have the same name")
        if self.nodes > _MOST_NODES:
            raise ValueError(f"{self.nodes} nodes are more than {_MOST_NODES}")

    @property
    def nodes(self) -> int:
        """How many there are."""
        return sum(pool.nodes for pool in self.pools)

    @property
    def too_large(self) -> list[int]:
        """Sizes of pods that no card holds: such pods come, and wait for ever."""
        largest = max(_card_units(model(pool.card)) for pool in self.pools)
        return sorted(units for units in self.units if units > largest)


def read(path: Path) -> ClusterPlan:
    """The plan in a file. Raises LoadError."""
    return read_data(path, ClusterPlan)


def node_names(plan: ClusterPlan) -> list[str]:
    """The names of all nodes, in the order of the pools."""
    return [_node_name(pool, number) for pool in plan.pools for number in range(pool.nodes)]


def build(plan: ClusterPlan) -> World:
    """The same nodes and pods for the same plan. No card is over-booked; pods that find no room are left out."""
    rng = random.Random(f"cluster {plan.seed}")  # an order, no secret
    nodes: list[Node] = []
    running: list[Pod] = []
    for pool in plan.pools:
        card = model(pool.card)
        units, mib = _card_units(card), card.memory_mib(_DRIVER)
        for number in range(pool.nodes):
            node = Node(
                _node_name(pool, number),
                pool.cards,
                units,
                card.name(_DRIVER),
                mib,
                {"pool": pool.name, **pool.labels},
                pool.numa,
            )
            nodes.append(node)
            sizes = rng.choices(list(plan.units), list(plan.units.values()), k=rng.randint(0, 2 * pool.pods))
            running.extend(_pods_on(node, sizes, len(running), rng))
    return World(tuple(nodes), tuple(running), sizes=plan.units)


def _node_name(pool: Pool, number: int) -> str:
    return f"{pool.name}-{number:05}"


def _pods_on(node: Node, sizes: list[int], first: int, rng: random.Random) -> list[Pod]:
    """Each on some card that has room for it; named by numbers from ``first`` on."""
    free, placed = [node.card_units] * node.cards, list[Pod]()
    for units in sizes:
        cards = [card for card in range(node.cards) if free[card] >= units]
        if cards:
            card = rng.choice(cards)
            free[card] -= units
            placed.append(Pod(f"runs-{first + len(placed):06}", units, node.name, card, node.card_units))
    return placed


def _card_units(card: CardModel) -> int:
    """Whole GiB, as the device plugin counts them. Raises CatalogueError."""
    return card.memory_mib(_DRIVER) // _MIB_A_UNIT
