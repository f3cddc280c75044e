"""All nodes at one moment: what filter, bind, /inspect and the command line decide on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from gpushare.manifests import DisruptionBudget
from gpushare.model.node import NodeInfo


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Every node that is known, by name; nodes without cards too. The maps are to be read alone; each node is a value.

    ``sizes`` counts the shares that are booked, by their units; ``budgets`` protect pods from eviction.
    """

    nodes: Mapping[str, NodeInfo] = field(default_factory=lambda: MappingProxyType({}))
    sizes: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    budgets: Mapping[tuple[str, str], DisruptionBudget] = field(default_factory=lambda: MappingProxyType({}))
