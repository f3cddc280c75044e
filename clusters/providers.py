"""Which kinds of cluster there are. The others of the design (kind, existing) come behind the same seam."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from clusters.control_plane import ControlPlane
from clusters.controlplane import binaries
from clusters.controlplane.binaries import MissingBinariesError
from clusters.controlplane.control_plane import RealControlPlane
from clusters.embedded.control_plane import EmbeddedControlPlane
from clusters.local_cluster import LocalCluster
from clusters.provider import Cluster, ClusterError, NodeSpec
from clusters.targets import Target


@dataclass(frozen=True, slots=True)
class Choices:
    """What a user may choose of a provider."""

    environment: Mapping[str, str]
    """For the programs that it starts."""
    kubernetes: str = field(default_factory=lambda: binaries.minors()[0])
    """The minor of Kubernetes, where that is a choice."""
    assets: Path | None = None
    """A folder of ready programs of a control plane."""


def _embedded(choices: Choices) -> Callable[[Path], ControlPlane]:
    return EmbeddedControlPlane


def _real(choices: Choices) -> Callable[[Path], ControlPlane]:
    try:
        found = binaries.locate(choices.kubernetes, choices.environment, choices.assets)
    except MissingBinariesError as error:
        raise ClusterError(f"provider controlplane: {error}") from error
    return lambda folder: RealControlPlane(found, folder, choices.environment)


_CONTROL_PLANES: Final[Mapping[str, Callable[[Choices], Callable[[Path], ControlPlane]]]] = {
    "embedded": _embedded,
    "controlplane": _real,
}
PROVIDERS: Final = tuple(_CONTROL_PLANES)


def make_cluster(name: str, nodes: Sequence[NodeSpec], target: Target, choices: Choices) -> Cluster:
    """A cluster of that kind, not yet started. Raises ClusterError for a kind that is not there, or cannot be here."""
    if name not in PROVIDERS:
        raise ClusterError(f"there is no provider {name!r}; there is: {', '.join(PROVIDERS)}")
    return LocalCluster(_CONTROL_PLANES[name](choices), nodes, target, choices.environment)
