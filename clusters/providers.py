"""Which kinds of cluster there are, all behind one seam."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from clusters import existing_cluster
from clusters.clock import REAL, Clock
from clusters.controlplane import binaries
from clusters.controlplane.real_control_plane import RealControlPlane
from clusters.embedded.embedded_control_plane import EmbeddedControlPlane
from clusters.existing_cluster import ExistingCluster
from clusters.local_cluster import ControlPlane, LocalCluster
from clusters.provider import Cluster, ClusterError, NodeSpec
from clusters.targets import Target


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices that a user has for a provider."""

    environment: Mapping[str, str]
    """For the programs that it starts."""
    kubernetes: str = field(default_factory=lambda: binaries.minors()[0])
    """The minor of Kubernetes, where that is a choice."""
    assets: Path | None = None
    """A folder of ready programs of a control plane."""
    speed: float = 1.0
    """How many times as fast as the machine's the cluster's clock runs."""
    announce: Callable[[Path], None] = lambda _: None
    """Called with the kubeconfig as soon as the API server answers."""
    node_image: str = ""
    """The image of the nodes, where they are containers; "" for the one that we build."""
    image_base: str = ""
    """The image that those of our programs are built on; "" for one of this machine's Debian packages."""
    kubeconfigs: Sequence[Path] = ()
    """The files of a cluster that is there already, to be merged."""
    context: str = ""
    """The context of these files; "" for the current one."""
    watch_lag: float = 0.0
    """The most seconds by which events of a watch come late; each watch draws its own."""
    disturbance: float = 0.0
    """The chance that the embedded API server disturbs a request of a ServiceAccount (``apiserver/application.py``)."""


EMBEDDED: Final = "embedded"
CONTROL_PLANE: Final = "controlplane"
KIND: Final = "kind"
BARE: Final = "bare"
"""The embedded cluster around this machine's own cards, with real processes on them; its one node is the machine."""
MADE: Final = (EMBEDDED, CONTROL_PLANE, KIND)
"""The kinds that are made, and end with their run."""
EXISTING: Final = existing_cluster.NAME
PROVIDERS: Final = (*MADE, EXISTING, BARE)


def make_cluster(name: str, nodes: Sequence[NodeSpec], target: Target, choices: Choices) -> Cluster:
    """A cluster of that kind, not yet started. Raises ClusterError for a kind that is not there, or cannot be here."""
    if name not in PROVIDERS:
        raise ClusterError(f"there is no provider {name!r}; there is: {', '.join(PROVIDERS)}")
    if name == EXISTING:
        if not choices.kubeconfigs:
            raise ClusterError("provider existing: which cluster? name its kubeconfig")
        return ExistingCluster(choices.kubeconfigs, choices.context)
    try:
        clock = Clock(choices.speed)
    except ValueError as error:
        raise ClusterError(str(error)) from error
    if (choices.watch_lag or choices.disturbance) and name != EMBEDDED:
        raise ClusterError(f"provider {name}: only the embedded API server can hold back events and disturb requests")
    if name == KIND:
        return _kind(nodes, target, choices, clock)
    if choices.node_image or choices.image_base:
        raise ClusterError(f"provider {name}: its nodes and programs are no containers, so they have no images")
    control_plane = _real(choices, clock) if name == CONTROL_PLANE else partial(_embedded, choices, clock)
    return LocalCluster(control_plane, nodes, target, choices.environment, clock=clock, announce=choices.announce)


def _embedded(choices: Choices, clock: Clock, folder: Path) -> ControlPlane:
    return EmbeddedControlPlane(folder, clock, watch_lag=choices.watch_lag, disturbance=choices.disturbance)


def _real(choices: Choices, clock: Clock) -> Callable[[Path], ControlPlane]:
    if clock.factor != REAL:
        raise ClusterError("provider controlplane: a real control plane has no clock to speed up")
    try:
        found = binaries.locate(choices.kubernetes, choices.environment, choices.assets)
    except ClusterError as error:
        raise ClusterError(f"provider controlplane: {error}") from error
    return lambda folder: RealControlPlane(found, folder, choices.environment)


def _kind(nodes: Sequence[NodeSpec], target: Target, choices: Choices, clock: Clock) -> Cluster:
    if clock.factor != REAL:
        raise ClusterError("provider kind: real kubelets have no clock to speed up")
    # Imported here: its dependency (pytest-kubernetes) is needed for this kind alone.
    from clusters.kind.kind_cluster import KindCluster

    return KindCluster(
        nodes,
        target,
        choices.environment,
        choices.kubernetes,
        node_image=choices.node_image,
        image_base=choices.image_base,
        announce=choices.announce,
    )
