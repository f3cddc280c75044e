"""Why kube-scheduler keeps a pod from a node, apart from its cards: its own filters, in its order and with its words. Pure.

Not judged: neighbours (pod affinity and spreading), volumes and ports of the host; ``not_judged`` names those that a pod has.

kube-scheduler compares the requests of all pods of a node with allocatable (its plugin NodeResourcesFit). A pod without a healthy
card counts there, too, and allocatable is without the devices that the kubelet calls unhealthy, which our book need not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from gpushare import wire
from gpushare.errors import InvalidQuantityError
from gpushare.kubectl_gpushare.core.scheduler_objects import (
    AskedPod,
    NodeSelectorTerm,
    RulesOfPod,
    ScheduledNode,
    Taint,
)
from gpushare.kubectl_gpushare.core.waiting_kinds import STATE_TAINT
from gpushare.manifests import NodeCondition, Pod, Resources
from gpushare.model.eviction import match_labels, other_requests
from gpushare.model.node import NodeInfo
from gpushare.model.pod import is_deleting, pod_request
from gpushare.model.quantity import parse_milli

# Thousandths of each resource.
Amounts = Mapping[str, int]

CORDONED: Final = "node(s) were unschedulable"
OTHER_NODE: Final = "node(s) didn't match the requested node name"
TAINTED: Final = "node(s) had untolerated taint"
NOT_SELECTED: Final = "node(s) didn't match Pod's node affinity/selector"
SHORT: Final = "Insufficient "
TOO_MANY_PODS: Final = "Too many pods"

_PODS: Final = "pods"
_THOUSAND: Final = 1000
_UNSCHEDULABLE: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
READY: Final = "Ready"
_CONDITIONS: Final = {
    "node.kubernetes.io/not-ready": READY,
    "node.kubernetes.io/unreachable": READY,
    "node.kubernetes.io/memory-pressure": "MemoryPressure",
    "node.kubernetes.io/disk-pressure": "DiskPressure",
    "node.kubernetes.io/pid-pressure": "PIDPressure",
    "node.kubernetes.io/network-unavailable": "NetworkUnavailable",
}
_KEEP_AWAY: Final = ("NoSchedule", "NoExecute")
_FIRST: Final = ("cpu", "memory", "ephemeral-storage")
OURS: Final = (wire.RESOURCE_MEMORY, wire.RESOURCE_SLOT, wire.RESOURCE_COUNT)
_MOST_NAMED: Final = 10


def amounts_of(pod: Pod) -> dict[str, int]:
    """The requests of a pod, in thousandths, with its place among the pods of the node.

    As kube-scheduler counts (``PodRequests``): the pod's own requests stand in place of those of its containers, and its overhead
    is added.
    """
    try:
        units = pod_request(pod)
    except InvalidQuantityError:
        units = 0
    own, overhead = pod.spec.resources or Resources(), pod.spec.overhead or {}
    of_pod = {name: parse_milli(amount) for name, amount in {**(own.limits or {}), **(own.requests or {})}.items()}
    found = {**dict(other_requests(pod)), wire.RESOURCE_MEMORY: units * _THOUSAND, **of_pod}
    found |= {name: found.get(name, 0) + parse_milli(amount) for name, amount in overhead.items()}
    return {_PODS: _THOUSAND} | {name: amount for name, amount in found.items() if amount}


def allocatable_of(node: ScheduledNode) -> dict[str, int]:
    """The resources of a node, in thousandths."""
    amounts = (node.status.allocatable if node.status else None) or {}
    return {name: parse_milli(amount) for name, amount in amounts.items()}


def rule_against(node: ScheduledNode, pod: AskedPod) -> str:
    """Why the node is none for this pod, whatever runs there; "" if it is one."""
    rules, name = pod.spec, node.metadata.name
    if node.spec.unschedulable and not _tolerates(rules, _UNSCHEDULABLE):
        return CORDONED
    if rules.node_name and rules.node_name != name:
        return OTHER_NODE
    for taint in _untolerated(node, rules):
        return f"{TAINTED} {{{taint.key}: {taint.value or ''}}}"
    return "" if _accepts(rules, node) else NOT_SELECTED


def _untolerated(node: ScheduledNode, rules: RulesOfPod) -> Iterator[Taint]:
    return (one for one in node.spec.taints or () if one.effect in _KEEP_AWAY and not _tolerates(rules, one))


def states_against(node: ScheduledNode, pod: AskedPod) -> list[str]:
    """The states of the node that keep the pod away by a taint of Kubernetes or of an agent: no person set it."""
    keys = dict.fromkeys(one.key for one in _untolerated(node, pod.spec) if STATE_TAINT.search(one.key))
    return list(dict.fromkeys(_state(node, key) for key in keys if key != _UNSCHEDULABLE.key))


def _state(node: ScheduledNode, key: str) -> str:
    named = _CONDITIONS.get(key, "")
    known = (node.status.conditions if node.status else None) or ()
    condition = next((one for one in known if one.type == named), None)
    if condition is None:
        return f"node {node.metadata.name} has the taint {key}"
    return state_text(node.metadata.name, condition)


def state_text(name: str, condition: NodeCondition) -> str:
    """A condition of a node that is not as it should be, as kubectl shows it, with its beginning and reason."""
    state = "NotReady" if condition.type == READY else condition.type
    since = f" since {condition.last_transition_time}" if condition.last_transition_time else ""
    why = ": ".join(filter(None, (condition.reason, condition.message)))
    return f"node {name} is {state}{since}{f' ({why})' if why else ''}"


def short_of(free: Amounts, wanted: Amounts) -> str:
    """Which resources the node has too little of, as kube-scheduler writes it; "" if none."""
    missing = sorted((name for name, amount in wanted.items() if free.get(name, 0) < amount), key=_in_order)
    return ", ".join(TOO_MANY_PODS if name == _PODS else f"{SHORT}{name}" for name in missing)


def times_in(free: Amounts, wanted: Amounts) -> int:
    """How many such pods the node's resources hold."""
    return min(max(free.get(name, 0), 0) // amount for name, amount in wanted.items() if amount)


def not_judged(pod: AskedPod) -> Sequence[str]:
    """The pod's own rules that kube-scheduler obeys and nothing here judges."""
    spec, affinity = pod.spec, pod.spec.affinity
    ports = any(port.host_port for one in spec.containers or () for port in one.ports or ())
    there = {
        "pod affinity": affinity is not None and affinity.pod_affinity is not None,
        "pod anti-affinity": affinity is not None and affinity.pod_anti_affinity is not None,
        "topology spread": bool(spec.topology_spread_constraints),
        "volumes": any(volume.persistent_volume_claim for volume in spec.volumes or ()),
        "ports of the host": ports,
    }
    return [name for name, is_there in there.items() if is_there]


def _in_order(name: str) -> tuple[int, str]:
    """Pods first, then the resources of every node, then the others by name."""
    order = (_PODS, *_FIRST)
    return (order.index(name) if name in order else len(order), name)


def _tolerates(rules: RulesOfPod, taint: Taint) -> bool:
    """An empty effect or key of a toleration is every one."""
    return any(
        (one.effect or taint.effect, one.key or taint.key) == (taint.effect, taint.key)
        and (one.operator == "Exists" or (one.value or "") == (taint.value or ""))
        for one in rules.tolerations or ()
    )


def _accepts(rules: RulesOfPod, node: ScheduledNode) -> bool:
    labels = node.metadata.labels or {}
    if not match_labels(labels, rules.node_selector):
        return False
    affinity = rules.affinity.node_affinity if rules.affinity else None
    if affinity is None or affinity.required is None:
        return True
    return any(_meets(term, node) for term in affinity.required.node_selector_terms or ())


def _meets(term: NodeSelectorTerm, node: ScheduledNode) -> bool:
    """A term without a requirement is met by none."""
    by_label, by_field = term.match_expressions or (), term.match_fields or ()
    labels, fields = node.metadata.labels or {}, {"metadata.name": node.metadata.name}
    is_met = match_labels(labels, None, by_label) and match_labels(fields, None, by_field)
    return bool(by_label or by_field) and is_met


class CountedPod(NamedTuple):
    """A bound pod that has not ended, with its amounts of our resources in thousandths."""

    uid: str
    namespace: str
    name: str
    priority: int
    is_ending: bool
    amounts: Amounts

    def units(self, resource: str) -> int:
        """Its whole units of a resource."""
        return self.amounts.get(resource, 0) // _THOUSAND


def counted_pod(pod: Pod) -> CountedPod | None:
    """The pod as it counts; None if it asks for nothing of ours."""
    amounts = {name: amount for name, amount in amounts_of(pod).items() if name in OURS}
    meta = pod.metadata
    return (
        CountedPod(meta.uid, meta.namespace, meta.name, pod.spec.priority or 0, is_deleting(pod), amounts)
        if amounts
        else None
    )


def shortage(
    info: NodeInfo,
    whole: int,
    resource: str,
    wanted: Amounts,
    allocatable: Amounts,
    free: Mapping[str, int],
    pods: Sequence[CountedPod],
) -> tuple[str, Sequence[CountedPod]]:
    """Why the node has too little of a resource of ours in sum, and the pods whose end makes room, none if none does.

    Amounts are in thousandths; ``whole`` is the capacity in units.
    """
    offered, missing = allocatable.get(resource, 0), wanted[resource] - free.get(resource, 0)
    healthy = {device.index for device in info.devices if device.healthy}
    placed = {one.uid for one in info.bookings if any(card in healthy for card, _ in one.shares)}
    holders = [one for one in pods if one.units(resource)]
    without = [one for one in holders if one.uid not in placed]
    counted, lost = (offered - free.get(resource, 0)) // _THOUSAND, sum(one.units(resource) for one in without)
    ends = _ends(holders, resource, missing, placed)
    text = (
        f"node {info.name}: {counted} of its {offered // _THOUSAND} allocatable {resource} are counted for pods, {lost} of them "
        "for pods on an unhealthy or removed card or on none"
    )
    if offered < whole * _THOUSAND:
        text += f"; the node has {whole} in all, and its kubelet takes the others to be unhealthy"
    if named := ", ".join(f"{one.namespace}/{one.name} ({one.units(resource)})" for one in ends[:_MOST_NAMED]):
        more = f", and {len(ends) - _MOST_NAMED} more" if len(ends) > _MOST_NAMED else ""
        text += f"; the end of {named}{more} makes room"
    return text, ends


def _ends(holders: Sequence[CountedPod], resource: str, missing: int, placed: set[str]) -> Sequence[CountedPod]:
    """Pods that go anyway come first, then those without a healthy card, then those of the lowest priority, then the largest."""
    chosen: list[CountedPod] = []
    for one in sorted(
        holders, key=lambda one: (not one.is_ending, one.uid in placed, one.priority, -one.amounts[resource], one.uid)
    ):
        if missing <= 0:
            break
        chosen.append(one)
        missing -= one.amounts[resource]
    return chosen if missing <= 0 else ()
