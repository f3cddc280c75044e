"""An immutable view of all nodes: what filter, bind, /inspect and the command line decide on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from gpushare.model.node import NodeInfo


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Every node that is known, by name; nodes without cards too."""

    nodes: Mapping[str, NodeInfo] = field(default_factory=lambda: MappingProxyType({}))
