"""The engine below the nodes: the Docker that runs them, the rules that keep their packets here, and the program kind."""

from __future__ import annotations

from clusters.kind.engine.egress import EgressCounts, egress_counts, egress_packets
from clusters.kind.engine.engine import Engine, down, engine_environment, find, reason_against, up, using

__all__ = [
    "EgressCounts",
    "Engine",
    "down",
    "egress_counts",
    "egress_packets",
    "engine_environment",
    "find",
    "reason_against",
    "up",
    "using",
]
