"""Which changes of the cluster give a pod that waits another try.

For a pod that an extender has turned away every change counts that the scheduler watches: of nodes, of pods that are
assigned, of the pod itself. A ConfigMap is not watched at all. For a pod that a filter of the scheduler has turned away the
kinds of change count that can cure it; kube-scheduler also looks whether this very change does, which saves attempts that
no extender sees.
"""

from __future__ import annotations

from enum import Enum, auto

from clusters.api.api_client import Object
from clusters.embedded.scheduling.fit import (
    EXTENDER,
    NODE_AFFINITY,
    NODE_RESOURCES_FIT,
    NODE_UNSCHEDULABLE,
    TAINT_TOLERATION,
)


class Change(Enum):
    """The kind of an event. *Pod* is one that is assigned to a node, *own* the waiting pod itself."""

    POD_ADDED = auto()
    POD_UPDATED = auto()
    POD_DELETED = auto()  # or has ended, or gave up the node it was nominated to
    NODE_ADDED = auto()
    NODE_DELETED = auto()
    NODE_ALLOCATABLE = auto()
    NODE_LABELS = auto()
    NODE_TAINTS = auto()
    NODE_CONDITIONS = auto()
    NODE_ANNOTATIONS = auto()
    OWN_UPDATED = auto()
    OWN_TOLERATIONS = auto()


CURES: dict[str, frozenset[Change]] = {
    EXTENDER: frozenset(Change),
    NODE_RESOURCES_FIT: frozenset({Change.POD_DELETED, Change.NODE_ADDED, Change.NODE_ALLOCATABLE}),
    NODE_AFFINITY: frozenset({Change.NODE_ADDED, Change.NODE_LABELS}),
    TAINT_TOLERATION: frozenset({Change.NODE_ADDED, Change.NODE_TAINTS, Change.OWN_TOLERATIONS}),
    NODE_UNSCHEDULABLE: frozenset({Change.NODE_ADDED, Change.NODE_TAINTS, Change.OWN_TOLERATIONS}),
}


def wakes(rejectors: frozenset[str], change: Change) -> bool:
    """Whether the change gives another try to a pod that ``rejectors`` (names of filters) turned away."""
    return any(change in CURES[rejector] for rejector in rejectors)


def node_changes(old: Object | None, new: Object) -> list[Change]:
    """The change of a node between two states of it; a heartbeat alone is none, nor is a cordon."""
    if old is None:
        return [Change.NODE_ADDED]
    before, after = facets(old), facets(new)
    changes = [change for change, facet in after.items() if before[change] != facet]
    was_cordoned, is_cordoned = ((each.get("spec") or {}).get("unschedulable") for each in (old, new))
    if was_cordoned and not is_cordoned and Change.NODE_TAINTS not in changes:
        changes.append(Change.NODE_TAINTS)
    return changes


def facets(node: Object) -> dict[Change, object]:
    """The parts of a node with a kind of event of their own."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    return {
        Change.NODE_ALLOCATABLE: status.get("allocatable") or {},
        Change.NODE_LABELS: node["metadata"].get("labels") or {},
        Change.NODE_TAINTS: spec.get("taints") or [],
        Change.NODE_CONDITIONS: {each["type"]: each["status"] for each in status.get("conditions") or []},
        Change.NODE_ANNOTATIONS: node["metadata"].get("annotations") or {},
    }


def own_change(old: Object, new: Object) -> Change:
    """The change of the waiting pod itself; its status counts too, so that a written condition is an event."""
    before, after = (len(pod["spec"].get("tolerations") or []) for pod in (old, new))
    return Change.OWN_UPDATED if before == after else Change.OWN_TOLERATIONS
