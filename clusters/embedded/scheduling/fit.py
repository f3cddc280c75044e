"""The in-tree filters that matter to an extender, in kube-scheduler's order and with its reasons.

The first filter that rejects a node speaks for it. Not imitated: volumes, host ports, spreading, pod (anti-)affinity,
pod-level resources and dynamic resource allocation (``pod_fields.not_imitated``). Some ask whether
a node is one that a pod accepts (selector, affinity) and one that accepts the pod (taints).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from clusters.amounts import Amounts, requests_of
from clusters.api.api_client import Object, uid_of
from clusters.embedded.scheduling.cluster_view import NodeInfo, PodOnNode
from clusters.embedded.scheduling.pod_fields import priority_of

NODE_UNSCHEDULABLE = "NodeUnschedulable"
TAINT_TOLERATION = "TaintToleration"
NODE_AFFINITY = "NodeAffinity"
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


def demand_of(pod: Object, ignored_resources: frozenset[str] = frozenset()) -> Demand:
    """The demand of a pod; ``ignored_resources`` are left to an extender. Zero requests ask nothing."""
    requests = requests_of(pod)
    counted = {name: value for name, value in requests.items() if value and name not in ignored_resources}
    return Demand(pod, counted)


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
    return _reject_for_resources(demand.requests, info)


def _reject_for_resources(requests: Amounts, info: NodeInfo) -> Rejection | None:
    """Every resource that is short. A request larger than the node itself cannot be helped by eviction."""
    reasons = ["Too many pods"] if len(info.pods) + 1 > info.allocatable.get(PODS, 0) else []
    free = {name: info.allocatable.get(name, 0) - info.requested.get(name, 0) for name in requests}
    short = [name for name, value in requests.items() if value > free[name]]
    reasons += [f"Insufficient {name}" for name in sorted(short, key=_in_order)]
    if not reasons:
        return None
    resolvable = all(requests[name] <= info.allocatable.get(name, 0) for name in short)
    return Rejection(NODE_RESOURCES_FIT, tuple(reasons), resolvable)


def _in_order(resource: str) -> tuple[int, str]:
    """cpu, memory, ephemeral-storage, then the extended resources by name."""
    native = ("cpu", "memory", "ephemeral-storage")
    return (native.index(resource) if resource in native else len(native), resource)


class SchedulingError(Exception):
    """A cycle that found no node. The pod waits with reason Unschedulable; ``rejectors`` decide what wakes it."""

    def __init__(self, message: str, rejectors: frozenset[str] = frozenset()) -> None:
        super().__init__(message)
        self.rejectors = rejectors


class NoNodesError(SchedulingError):
    """The cluster has no node at all; this is no refusal, so the pod is tried again after its backoff."""

    def __init__(self) -> None:
        super().__init__("no nodes available to schedule pods")


@dataclass(slots=True)
class Diagnosis:
    """The findings of one cycle about the nodes.

    A node without a rejection was not looked at, or an extender dropped it without a reason (``silent_rejectors``).
    """

    node_count: int
    rejections: dict[str, Rejection] = field(default_factory=dict)
    absent_reason: str = ""
    """Counted for each node without a rejection."""
    silent_rejectors: set[str] = field(default_factory=set)

    @property
    def rejectors(self) -> frozenset[str]:
        """The plugin that kept the pod from a node, with a reason, or (an extender that just drops nodes) without."""
        return frozenset({rejection.plugin for rejection in self.rejections.values()} | self.silent_rejectors)

    @property
    def message(self) -> str:
        """``0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable.``: counted, then sorted as text."""
        counts = Counter(reason for rejection in self.rejections.values() for reason in rejection.reasons)
        absent = self.node_count - len(self.rejections)
        if self.absent_reason and absent > 0:
            counts[self.absent_reason] += absent
        head = f"0/{self.node_count} nodes are available:"
        reasons = ", ".join(sorted(f"{number} {reason}" for reason, number in counts.items()))
        return f"{head} {reasons}." if reasons else head


class FitError(SchedulingError):
    """Nodes there are, but none fits. ``diagnosis`` is what preemption starts from."""

    def __init__(self, diagnosis: Diagnosis, preemption: str = "") -> None:
        """``preemption``: the result of a search for victims."""
        super().__init__(f"{diagnosis.message} {preemption}".rstrip(), diagnosis.rejectors)
        self.diagnosis = diagnosis


UNSCHEDULABLE_TAINT: Object = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def accepts_node(pod: Object, node: Object) -> bool:
    """Whether the node has the labels of ``nodeSelector`` and satisfies one term of the required node affinity."""
    labels = node["metadata"].get("labels") or {}
    wanted = pod["spec"].get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(term_matches(term, node) for term in required.get("nodeSelectorTerms") or [])


def term_matches(term: Object, node: Object) -> bool:
    """Whether all requirements of a term hold; a term without any matches nothing."""
    expressions = term.get("matchExpressions") or []
    by_field = term.get("matchFields") or []
    labels = node["metadata"].get("labels") or {}
    name = {"metadata.name": node["metadata"]["name"]}
    return bool(expressions or by_field) and (
        all(requirement_holds(each, labels) for each in expressions)
        and all(requirement_holds(each, name) for each in by_field)
    )


def requirement_holds(requirement: Object, labels: dict[str, str]) -> bool:
    """One requirement of a node selector term. Raises ValueError for an operator that Kubernetes does not have."""
    value = labels.get(requirement["key"])
    values = requirement.get("values") or []
    match requirement["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return is_number(value) and is_number(values[0]) and int(str(value)) > int(values[0])
        case "Lt":
            return is_number(value) and is_number(values[0]) and int(str(value)) < int(values[0])
    raise ValueError(f"node affinity operator {requirement['operator']!r} is not known")


def is_number(text: str | None) -> bool:
    """Whether Gt and Lt can compare it."""
    return text is not None and text.removeprefix("-").isdecimal()


def untolerated_taint(pod: Object, node: Object) -> Object | None:
    """The first taint that keeps the pod away. ``PreferNoSchedule`` never does."""
    for taint in (node.get("spec") or {}).get("taints") or []:
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not tolerates(pod, taint):
            return dict(taint)
    return None


def tolerates(pod: Object, taint: Object) -> bool:
    """Whether any toleration of the pod covers the taint."""
    return any(toleration_covers(toleration, taint) for toleration in pod["spec"].get("tolerations") or [])


def toleration_covers(toleration: Object, taint: Object) -> bool:
    """An empty effect or key stands for every one; without an operator the values must be equal."""
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator") == "Exists":
        return True
    return (toleration.get("value") or "") == (taint.get("value") or "")
