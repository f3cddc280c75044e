"""The in-tree filters that matter to an extender, in kube-scheduler's order and with its reasons.

The first filter that rejects a node speaks for it. Not imitated: volumes, spreading, pod (anti-)affinity, pod-level
resources and dynamic resource allocation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clusters.api_client import Object
from clusters.embedded.scheduling.host_ports import HostPort, conflict, host_ports
from clusters.embedded.scheduling.node_match import UNSCHEDULABLE_TAINT, accepts_node, tolerates, untolerated_taint
from clusters.embedded.scheduling.node_state import NodeInfo, PodOnNode
from clusters.embedded.scheduling.scheduler_pod_requests import Amounts, priority_of, requests_of, uid_of

NODE_UNSCHEDULABLE = "NodeUnschedulable"
TAINT_TOLERATION = "TaintToleration"
NODE_AFFINITY = "NodeAffinity"
NODE_PORTS = "NodePorts"
NODE_RESOURCES_FIT = "NodeResourcesFit"
# Stands for all extenders among the rejectors of a pod; kube-scheduler's name for it is an internal one, too.
EXTENDER = "Extender"

# A node that does not report how many pods it takes fits none: a kubelet always reports it.
PODS = "pods"


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a node is out. ``resolvable``: evicting pods from the node might help (preemption looks at these)."""

    plugin: str
    reasons: tuple[str, ...]
    resolvable: bool


@dataclass(frozen=True, slots=True)
class Demand:
    """A pod as the filters look at it, computed once a cycle."""

    pod: Object
    requests: Amounts
    ports: tuple[HostPort, ...] = ()


def demand_of(pod: Object, ignored_resources: frozenset[str] = frozenset()) -> Demand:
    """The demand of a pod; ``ignored_resources`` are left to an extender. Zero requests ask nothing."""
    requests = requests_of(pod)
    counted = {name: value for name, value in requests.items() if value and name not in ignored_resources}
    return Demand(pod, counted, tuple(host_ports(pod)))


def reject_with_nominated(demand: Demand, info: NodeInfo, nominated: Sequence[PodOnNode]) -> Rejection | None:
    """Why the pod does not fit beside those that are nominated to the node and no less important, or without them."""
    before = [
        each
        for each in nominated
        if each.uid != uid_of(demand.pod) and priority_of(each.pod) >= priority_of(demand.pod)
    ]
    if before:
        crowded = info.copy()
        for each in before:
            crowded.add(each)
        rejection = reject(demand, crowded)
        if rejection is not None:
            return rejection
    return reject(demand, info)


def reject(demand: Demand, info: NodeInfo) -> Rejection | None:
    """The reason why the pod does not fit the node, or None if it fits."""
    node = info.node
    if (node.get("spec") or {}).get("unschedulable") and not tolerates(demand.pod, UNSCHEDULABLE_TAINT):
        return Rejection(NODE_UNSCHEDULABLE, ("node(s) were unschedulable",), resolvable=False)
    if untolerated_taint(demand.pod, node) is not None:
        return Rejection(TAINT_TOLERATION, ("node(s) had untolerated taint(s)",), resolvable=False)
    if not accepts_node(demand.pod, node):
        return Rejection(NODE_AFFINITY, ("node(s) didn't match Pod's node affinity/selector",), resolvable=False)
    if demand.ports and conflict(demand.ports, (port for each in info.pods.values() for port in each.ports)):
        return Rejection(NODE_PORTS, ("node(s) didn't have free ports for the requested pod ports",), resolvable=True)
    return reject_for_resources(demand.requests, info)


def reject_for_resources(requests: Amounts, info: NodeInfo) -> Rejection | None:
    """Every resource that is short. A request larger than the node itself cannot be helped by eviction."""
    reasons = ["Too many pods"] if info.pod_count + 1 > info.allocatable.get(PODS, 0) else []
    short = [name for name, value in requests.items() if value > free(info, name)]
    reasons += [f"Insufficient {name}" for name in sorted(short, key=in_order)]
    if not reasons:
        return None
    resolvable = all(requests[name] <= info.allocatable.get(name, 0) for name in short)
    return Rejection(NODE_RESOURCES_FIT, tuple(reasons), resolvable)


def free(info: NodeInfo, resource: str) -> int:
    """The amount of a resource that the requests on a node leave; a resource that the node does not have is 0."""
    return info.allocatable.get(resource, 0) - info.requested.get(resource, 0)


def in_order(resource: str) -> tuple[int, str]:
    """cpu, memory, ephemeral-storage, then the extended resources by name."""
    native = ("cpu", "memory", "ephemeral-storage")
    return (native.index(resource) if resource in native else len(native), resource)
