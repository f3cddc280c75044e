"""Which kinds of cluster there are. The others of the design (controlplane, kind, existing) come behind the same seam."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from clusters.embedded.provider import EmbeddedCluster
from clusters.provider import Cluster, ClusterError, NodeSpec
from clusters.targets import Target

# Each takes the nodes, the target, and the environment for the programs that it starts.
PROVIDERS: Final[Mapping[str, Callable[[Sequence[NodeSpec], Target, Mapping[str, str]], Cluster]]] = {
    "embedded": EmbeddedCluster,
}


def make_cluster(name: str, nodes: Sequence[NodeSpec], target: Target, environment: Mapping[str, str]) -> Cluster:
    """A cluster of that kind, not yet started. Raises ClusterError for a kind that is not there."""
    if name not in PROVIDERS:
        raise ClusterError(f"there is no provider {name!r}; there is: {', '.join(PROVIDERS)}")
    return PROVIDERS[name](nodes, target, environment)
