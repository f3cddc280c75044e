"""Which changes of the cluster give a pod that waits another try.

Each filter that turned the pod away is asked whether the change can change its mind. For a pod that an extender has
turned away every change counts that the scheduler watches: of nodes, of pods that are assigned, of the pod itself. A
ConfigMap is not watched at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

from clusters.api_client import Object
from clusters.embedded.scheduling.fit import (
    EXTENDER,
    NODE_AFFINITY,
    NODE_PORTS,
    NODE_RESOURCES_FIT,
    NODE_UNSCHEDULABLE,
    TAINT_TOLERATION,
    demand_of,
    reject_for_resources,
)
from clusters.embedded.scheduling.host_ports import conflict, host_ports
from clusters.embedded.scheduling.node_match import UNSCHEDULABLE_TAINT, accepts_node, tolerates, untolerated_taint
from clusters.embedded.scheduling.node_state import node_info
from clusters.embedded.scheduling.scheduler_pod_requests import Amounts, node_of, requests_of, uid_of


class Change(Enum):
    """The kind of an event. *Pod* is one that is assigned to a node, *own* the waiting pod itself."""

    POD_ADDED = auto()
    POD_UPDATED = auto()
    POD_SCALED_DOWN = auto()
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


@dataclass(frozen=True, slots=True, eq=False)
class ClusterEvent:
    """One change, with the object before and after it if there was one."""

    change: Change
    old: Object | None = field(default=None, repr=False)
    new: Object | None = field(default=None, repr=False)


Hint = Callable[[Object, ClusterEvent], bool]


def after_resources(pod: Object, event: ClusterEvent) -> bool:
    """NodeResourcesFit: room on a node, or a node that the pod fits when it is empty."""
    match event.change:
        case Change.POD_DELETED:
            return held_a_node(event.old)
        case Change.POD_SCALED_DOWN:
            return shrank(requests_of(pod), event.old, event.new)
        case Change.NODE_ADDED | Change.NODE_ALLOCATABLE:
            return now_fits(pod, event.old, event.new)
    return False


def after_ports(pod: Object, event: ClusterEvent) -> bool:
    """NodePorts: a new node, or one of the pod's ports is free."""
    if event.change is Change.POD_DELETED and held_a_node(event.old) and event.old is not None:
        return conflict(host_ports(pod), host_ports(event.old))
    return event.change is Change.NODE_ADDED


def after_labels(pod: Object, event: ClusterEvent) -> bool:
    """NodeAffinity: a node that the pod accepts and did not before."""
    if event.change not in (Change.NODE_ADDED, Change.NODE_LABELS) or event.new is None:
        return False
    return accepts_node(pod, event.new) and (event.old is None or not accepts_node(pod, event.old))


def after_taints(pod: Object, event: ClusterEvent) -> bool:
    """TaintToleration: a node that the pod tolerates and did not before, or another toleration of the pod."""
    if event.change not in (Change.NODE_ADDED, Change.NODE_TAINTS) or event.new is None:
        return event.change is Change.OWN_TOLERATIONS
    was_kept_away = event.old is None or untolerated_taint(pod, event.old) is not None
    return was_kept_away and untolerated_taint(pod, event.new) is None


def after_cordon(pod: Object, event: ClusterEvent) -> bool:
    """NodeUnschedulable: a node that takes pods and did not before, or the pod does not care any more."""
    if event.change is Change.OWN_TOLERATIONS:
        return tolerates(pod, UNSCHEDULABLE_TAINT)
    if event.change not in (Change.NODE_ADDED, Change.NODE_TAINTS) or is_cordoned(event.new):
        return False
    return event.old is None or is_cordoned(event.old)


HINTS: dict[str, Hint] = {
    EXTENDER: lambda pod, event: True,
    NODE_RESOURCES_FIT: after_resources,
    NODE_PORTS: after_ports,
    NODE_AFFINITY: after_labels,
    TAINT_TOLERATION: after_taints,
    NODE_UNSCHEDULABLE: after_cordon,
}


def wakes(pod: Object, rejectors: frozenset[str], event: ClusterEvent) -> bool:
    """Whether ``event`` gives another try to a pod that ``rejectors`` (names of filters) turned away."""
    return any(HINTS[rejector](pod, event) for rejector in rejectors)


def node_events(old: Object | None, new: Object) -> list[ClusterEvent]:
    """The change of a node between two states of it; a heartbeat alone is none, nor is a cordon."""
    if old is None:
        return [ClusterEvent(Change.NODE_ADDED, None, new)]
    before, after = facets(old), facets(new)
    changes = [change for change, facet in after.items() if before[change] != facet]
    if is_cordoned(old) and not is_cordoned(new) and Change.NODE_TAINTS not in changes:
        changes.append(Change.NODE_TAINTS)
    return [ClusterEvent(change, old, new) for change in changes]


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


def own_event(old: Object, new: Object) -> ClusterEvent:
    """The change of the waiting pod itself; its status counts too, so that a written condition is an event."""
    before, after = (len(pod["spec"].get("tolerations") or []) for pod in (old, new))
    return ClusterEvent(Change.OWN_UPDATED if before == after else Change.OWN_TOLERATIONS, old, new)


def assigned_event(old: Object | None, new: Object) -> ClusterEvent:
    """The change of a pod on a node: less than before is room for others."""
    if old is None or not node_of(old):
        return ClusterEvent(Change.POD_ADDED, None, new)
    before, after = requests_of(old), requests_of(new)
    shrunk = any(after.get(name, 0) < value for name, value in before.items())
    return ClusterEvent(Change.POD_SCALED_DOWN if shrunk else Change.POD_UPDATED, old, new)


def held_a_node(pod: Object | None) -> bool:
    """Whether the pod was on a node, or nominated to one."""
    return pod is not None and bool(node_of(pod) or (pod.get("status") or {}).get("nominatedNodeName"))


def shrank(wanted: Amounts, old: Object | None, new: Object | None) -> bool:
    """Whether a pod asks for less than before of something that is wanted."""
    before, after = requests_of(old or {"spec": {}}), requests_of(new or {"spec": {}})
    return any(value and before.get(name, 0) > after.get(name, 0) for name, value in wanted.items())


def now_fits(pod: Object, old: Object | None, new: Object | None) -> bool:
    """Whether the node holds the pod when it is empty, and has more of something wanted than before."""
    if new is None:
        return False
    demand, now = demand_of(pod), node_info(new)
    if reject_for_resources(demand.requests, now) is not None:
        return False
    if old is None:
        return True
    before = node_info(old)
    return any(now.allocatable.get(name, 0) > before.allocatable.get(name, 0) for name in ("pods", *demand.requests))


def is_cordoned(node: Object | None) -> bool:
    """Whether the node takes no new pods."""
    return bool(((node or {}).get("spec") or {}).get("unschedulable"))


def is_same_pod(one: Object, other: Object) -> bool:
    """Whether both are states of one pod."""
    return uid_of(one) == uid_of(other)
