"""The clusters of bursts: three nodes with stand-in kubelets that do not keep the order of bindings, or two real ones."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from clusters.provider import Cluster, NodeSpec, load_nodes
from clusters.providers import Choices
from clusters.targets import Target
from e2e.bursts.burst_plan import MOST_PODS, Burst, make_burst
from e2e.bursts.play import SETTLE_SECONDS, Player
from e2e.observer import observing, own_cluster
from e2e.real_kubelets import STAND_INS
from e2e.target_capabilities import options_known

_NODES_FILE: Final = Path(__file__).parents[2] / "clusters" / "simulated" / "bursts.yaml"
_NAMESPACE: Final = "bursts"


@dataclass(frozen=True, slots=True)
class Venue:
    """The parts of a burst that depend on its cluster."""

    nodes: int = 3
    """How many of the file's."""
    most_pods: int = MOST_PODS
    settle_seconds: float = SETTLE_SECONDS
    """The longest that a burst may take to settle."""
    speed: float = 1.0
    """How many times as fast as the machine's its clock runs."""

    def burst(self, seed: str, nodes: Sequence[str]) -> Burst:
        """The burst of a seed, as it is played here."""
        return make_burst(seed, nodes, self.most_pods)


# Waits of minutes in a cluster (the scheduler's back-off, a container's next attempt) must not make a burst long.
_EMBEDDED: Final = Venue(speed=10.0)
# Real containers, of which a small machine starts one or two a second.
_REAL: Final = Venue(nodes=2, most_pods=14, settle_seconds=180.0)


def venue_of(provider: str) -> Venue:
    """The venue for a kind of cluster."""
    if provider not in STAND_INS:
        return _REAL
    return _EMBEDDED if provider == "embedded" else Venue()


def nodes_of(provider: str) -> list[NodeSpec]:
    """The nodes of a cluster that is made for bursts."""
    return load_nodes(_NODES_FILE)[: venue_of(provider).nodes]


@contextlib.asynccontextmanager
async def open_player(
    provider: str,
    target: Target,
    choices: Choices,
    plugin_options: Mapping[str, str] | None = None,
    *,
    settle_seconds: float | None = None,
) -> AsyncIterator[Player]:
    """A cluster is up while inside; ``plugin_options`` are for every device plugin."""
    venue = venue_of(provider)
    with options_known(target):
        nodes = [
            target.spelt(msgspec.structs.replace(node, plugin_options=dict(plugin_options or {})))
            for node in nodes_of(provider)
        ]
    speed = choices.speed if venue.speed == 1 else venue.speed
    seconds = venue.settle_seconds if settle_seconds is None else settle_seconds
    async with (
        own_cluster(provider, nodes, target, replace(choices, speed=speed)) as cluster,
        player_on(cluster, [node.name for node in nodes], seconds, is_real=venue == _REAL) as player,
    ):
        yield player


@contextlib.asynccontextmanager
async def player_on(
    cluster: Cluster, nodes: Sequence[str], settle_seconds: float, *, is_real: bool
) -> AsyncIterator[Player]:
    """Plays on a cluster that is there, on all of its nodes with cards."""
    async with observing(cluster, _NAMESPACE) as observer:
        yield Player(observer, nodes, settle_seconds=settle_seconds, is_real=is_real)
