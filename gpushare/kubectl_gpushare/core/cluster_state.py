"""The cluster at one moment: the extender's book, filled from lists, and what kube-scheduler counts beside it. No I/O."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpushare import wire
from gpushare.errors import InvalidQuantityError
from gpushare.extender.core.book import Book
from gpushare.extender.core.workload import Workload
from gpushare.foreign import Decoder
from gpushare.kubectl_gpushare.core.node_rules import (
    Amounts,
    CountedPod,
    allocatable_of,
    amounts_of,
    counted_pod,
    shortage,
)
from gpushare.kubectl_gpushare.core.scheduler_objects import AskedPod, ScheduledNode
from gpushare.manifests import ConfigMap, Pod, PodOutline
from gpushare.model.allocation import Shares
from gpushare.model.conditions import answers_limits
from gpushare.model.node import Booking, capacity, parse_unhealthy, unit_of_size
from gpushare.model.placement import Question, question
from gpushare.model.pod import Request, cpu_request, gpu_containers, pod_request, request_of
from gpushare.model.quantity import MIB_PER_GIB

_ENDED = ("Succeeded", "Failed")
_ASKED = Decoder(AskedPod)


def subject_of(body: bytes) -> AskedPod:
    """The pod in a document of JSON. Raises UnreadableError."""
    return _ASKED.decode(body)


@dataclass(slots=True)
class ClusterState:
    """``hidden`` is what the caller may not read, and what that means for the answer.

    ``policy`` is the extender's; a policy by which pods are compared with those that came before needs their CPU.
    """

    policy: str = wire.POLICY_BINPACK
    nodes: dict[str, ScheduledNode] = field(default_factory=dict)
    hidden: list[str] = field(default_factory=list)
    unreadable: list[PodOutline] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    """By uid: why a pod's cards are not booked as its annotations name them."""
    nodes_of: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """By uid of a controller: the nodes of its pods that have not ended, one for each pod."""
    book: Book = field(init=False)
    _allocatable: dict[str, Amounts] = field(default_factory=dict)
    _assumed: int = 0
    _used: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    _counted: defaultdict[str, list[CountedPod]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        """The book of an extender that has just started."""
        self.book = Book(Workload(counts_cpu=self.policy == wire.POLICY_FRAGMENTATION))

    def set_node(self, node: ScheduledNode) -> None:
        """A node of the list."""
        self.nodes[node.metadata.name] = node
        self._allocatable[node.metadata.name] = allocatable_of(node)
        self.book.set_node(node)

    def set_pod(self, pod: Pod) -> None:
        """A pod of the list; only what it holds of its node is kept."""
        node = pod.spec.node_name
        if not node:
            return
        if pod.status is None or pod.status.phase not in _ENDED:
            self._used[node].update(amounts_of(pod))
            if (counted := counted_pod(pod)) is not None:
                self._counted[node].append(counted)
            for owner in pod.metadata.owner_references or ():
                if owner.controller:
                    self.nodes_of[owner.uid].append(node)
        if holds_cards(pod) or self.policy == wire.POLICY_FRAGMENTATION:
            problem = self.book.set_pod(pod)
            if problem is not None:
                self.problems[pod.metadata.uid] = problem

    def set_unreadable(self, pod: PodOutline) -> None:
        """A pod of the list that cannot be read."""
        self.unreadable.append(pod)
        self.book.set_unreadable(pod.metadata, pod.spec.node_name or "")

    @property
    def warnings(self) -> list[str]:
        """Its pods that cannot be read."""
        return [pod.warning for pod in self.unreadable]

    def too_small(self, subject: AskedPod, names: Iterable[str]) -> list[str]:
        """A warning if a container books less than a CUDA context may need, for the first of these nodes that limits it to that.

        Raises InvalidQuantityError.
        """
        infos = self.book.snapshot().nodes
        for name in names:
            if name in infos and infos[name].devices and answers_limits(self.nodes[name]):
                first = infos[name].devices[0]
                unit = first.unit_mib or unit_of_size(first.total)
                for container, units in gpu_containers(subject):
                    if units * unit < MIB_PER_GIB:
                        return [
                            f"container {container} books {units * unit} MiB, and node {name} limits it to its share: "
                            "a CUDA context alone takes 0.4 to 0.8 GiB"
                        ]
        return []

    def set_unhealthy(self, config_map: ConfigMap) -> None:
        """A ConfigMap of the contract declares cards unhealthy; any other declares none."""
        name = config_map.metadata.name
        if name.startswith(wire.UNHEALTHY_CONFIGMAP_PREFIX):
            indices, _ = parse_unhealthy((config_map.data or {}).get("gpus", ""))
            self.book.set_unhealthy(name.removeprefix(wire.UNHEALTHY_CONFIGMAP_PREFIX), indices)

    def question_of(self, subject: AskedPod) -> Question:
        """The extender's question about a pod. Raises InvalidQuantityError and InvalidWishError."""
        return question(request_of(subject), self.book.snapshot(), self.policy, cpu_request(subject))

    def free_on(self, name: str) -> Mapping[str, int]:
        """The amounts that kube-scheduler has left of each resource of a node, in thousandths."""
        used: Amounts = self._used.get(name, {})
        return {resource: amount - used.get(resource, 0) for resource, amount in self._allocatable[name].items()}

    def offers(self, name: str, resource: str) -> bool:
        """Does the node's kubelet offer any of a resource?"""
        return bool(self._allocatable[name].get(resource))

    def shortage_on(self, name: str, resource: str, wanted: Amounts) -> tuple[str, Sequence[CountedPod]]:
        """As ``shortage``, of a node by its name."""
        info, pods = self.book.snapshot().nodes[name], self._counted.get(name, ())
        whole = capacity(self.nodes[name], resource)
        return shortage(info, whole, resource, wanted, self._allocatable[name], self.free_on(name), pods)

    def assume(self, node: str, subject: AskedPod, request: Request, shares: Shares) -> None:
        """One such pod is on the node, as if the extender had bound it there."""
        self._used[node].update(amounts_of(subject))
        if request.units:
            self._assumed += 1
            # No uid of the API looks like this.
            uid, group = f"simulated-{self._assumed}", request.wishes.group
            booking = Booking(uid, subject.metadata.namespace, uid, request.units, shares, request.slots, group)
            self.book.assume(node, booking, cpu_request(subject))


def holds_cards(pod: Pod) -> bool:
    """Does the pod ask for card memory? An amount that cannot be read is one."""
    try:
        return pod_request(pod) > 0
    except InvalidQuantityError:
        return True
