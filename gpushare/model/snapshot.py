"""All nodes at one moment: what filter, bind, /inspect and the command line decide on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from gpushare.manifests import DisruptionBudget
from gpushare.model.node import NodeInfo
from gpushare.model.outlook import Outlook


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Every node that is known, by name; nodes without cards too. The maps must not be changed; each node is a value.

    ``outlook`` predicts which pods will come, None if none came yet; ``free_cpu`` has the milli-CPUs that no pod of
    a node asks for, if CPU is counted. ``budgets`` protect pods from eviction.
    """

    nodes: Mapping[str, NodeInfo] = field(default_factory=lambda: MappingProxyType({}))
    outlook: Callable[[], Outlook | None] = lambda: None
    free_cpu: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    budgets: Mapping[tuple[str, str], DisruptionBudget] = field(default_factory=lambda: MappingProxyType({}))
