"""Which changes of the cluster give a pod that waits another try.

For a pod that an extender has turned away any change counts that the scheduler watches, with two exceptions that
matter here: a pod bound elsewhere, or changed, wakes nobody (it can only take), and a ConfigMap is not watched at
all. A pod that only in-tree filters turned away wakes for what can change their mind.
"""

from __future__ import annotations

from enum import Enum, auto

from clusters.api_client import Object
from clusters.embedded.scheduling.fit import (
    EXTENDER,
    NODE_AFFINITY,
    NODE_RESOURCES_FIT,
    NODE_UNSCHEDULABLE,
    TAINT_TOLERATION,
)


class ClusterEvent(Enum):
    """A change that the scheduler may hear of; *pod* is one that is assigned to a node."""

    POD_ADDED = auto()
    POD_UPDATED = auto()
    POD_SCALED_DOWN = auto()
    POD_DELETED = auto()  # or has ended
    NODE_ADDED = auto()
    NODE_ALLOCATABLE = auto()
    NODE_LABELS = auto()
    NODE_TAINTS = auto()
    NODE_CONDITIONS = auto()
    NODE_ANNOTATIONS = auto()
    STORAGE = auto()
    CONFIG_MAP = auto()
    OWN = auto()  # spec, labels or annotations of the waiting pod itself


NEVER = frozenset({ClusterEvent.POD_ADDED, ClusterEvent.POD_UPDATED, ClusterEvent.CONFIG_MAP})
WAKES: dict[str, frozenset[ClusterEvent]] = {
    EXTENDER: frozenset(ClusterEvent) - NEVER,
    NODE_RESOURCES_FIT: frozenset(
        {
            ClusterEvent.POD_DELETED,
            ClusterEvent.POD_SCALED_DOWN,
            ClusterEvent.NODE_ADDED,
            ClusterEvent.NODE_ALLOCATABLE,
            ClusterEvent.OWN,
        }
    ),
    NODE_AFFINITY: frozenset({ClusterEvent.NODE_ADDED, ClusterEvent.NODE_LABELS, ClusterEvent.OWN}),
    TAINT_TOLERATION: frozenset({ClusterEvent.NODE_ADDED, ClusterEvent.NODE_TAINTS, ClusterEvent.OWN}),
    NODE_UNSCHEDULABLE: frozenset({ClusterEvent.NODE_ADDED, ClusterEvent.NODE_TAINTS, ClusterEvent.OWN}),
}


def wakes(event: ClusterEvent, rejectors: frozenset[str] = frozenset({EXTENDER})) -> bool:
    """Whether ``event`` gives another try to a pod that ``rejectors`` (names of filters) turned away."""
    return any(event in WAKES[rejector] for rejector in rejectors)


def node_events(old: Object | None, new: Object) -> frozenset[ClusterEvent]:
    """What happened to a node between two states of it; a heartbeat alone is nothing."""
    if old is None:
        return frozenset({ClusterEvent.NODE_ADDED})
    before, after = facets(old), facets(new)
    return frozenset(event for event, facet in after.items() if before[event] != facet)


def facets(node: Object) -> dict[ClusterEvent, object]:
    """The parts of a node whose change is an event of its own."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    return {
        ClusterEvent.NODE_ALLOCATABLE: status.get("allocatable") or {},
        ClusterEvent.NODE_LABELS: node["metadata"].get("labels") or {},
        ClusterEvent.NODE_ANNOTATIONS: node["metadata"].get("annotations") or {},
        ClusterEvent.NODE_TAINTS: (spec.get("taints") or [], bool(spec.get("unschedulable"))),
        ClusterEvent.NODE_CONDITIONS: {each["type"]: each["status"] for each in status.get("conditions") or []},
    }


def is_own_change(old: Object, new: Object) -> bool:
    """Whether a waiting pod has changed in more than its status and bookkeeping."""
    return own_facets(old) != own_facets(new)


def own_facets(pod: Object) -> tuple[object, ...]:
    """The parts of a pod that its scheduling can depend on."""
    metadata = pod["metadata"]
    return pod["spec"], metadata.get("labels") or {}, metadata.get("annotations") or {}
