"""The nodes and pods of a simulated cluster, as they are at the start. Nouns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

NAMESPACE: Final = "load"


class Node(NamedTuple):
    """A node: so many equal cards of ``card_units`` each. ``model`` is "" where nobody says it (a node of the Go plugin)."""

    name: str
    cards: int
    card_units: int
    model: str = ""
    card_mib: int = 0
    labels: Mapping[str, str] = {}  # of a NamedTuple: shared, and never changed


class Pod(NamedTuple):
    """A pod of one container. ``node`` and ``card`` say where it runs; a pod that waits has no node."""

    name: str
    units: int
    node: str = ""
    card: int = 0
    card_units: int = 0


@dataclass(frozen=True, slots=True)
class World:
    """All that a simulated API server shows at first. ``sizes``: the units of pods that come later, each with its weight."""

    nodes: tuple[Node, ...]
    running: tuple[Pod, ...]
    waiting: tuple[Pod, ...] = ()
    sizes: Mapping[int, float] = field(default_factory=lambda: {1: 1.0})
