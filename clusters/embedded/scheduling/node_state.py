"""One node as the filters look at it: its resources, and the pods on it."""

from __future__ import annotations

from dataclasses import dataclass, field

from clusters.api_client import Object
from clusters.embedded.scheduling.host_ports import HostPort, host_ports
from clusters.embedded.scheduling.scheduler_pod_requests import Amounts, counted_of, node_of, requests_of, uid_of
from clusters.embedded.scheduling.scheduler_quantities import amounts


@dataclass(frozen=True, slots=True)
class PodOnNode:
    """A pod that counts on a node. ``assumed``: the API server has not shown it bound."""

    node: str
    requests: Amounts
    assumed: bool
    pod: Object = field(default_factory=dict, repr=False)
    ports: tuple[HostPort, ...] = ()
    counted: Amounts = field(default_factory=dict)
    """Requests as scores count them."""

    @property
    def uid(self) -> str:
        """The pod's identity."""
        return uid_of(self.pod)


@dataclass(slots=True)
class NodeInfo:
    """One node: the object, its allocatable amounts, and the pods on it with the sum of their requests."""

    node: Object
    allocatable: Amounts
    requested: Amounts = field(default_factory=dict)
    pods: dict[str, PodOnNode] = field(default_factory=dict)
    counted: Amounts = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The node's name."""
        return str(self.node["metadata"]["name"])

    @property
    def pod_count(self) -> int:
        """How many pods count on it."""
        return len(self.pods)

    def add(self, pod: PodOnNode) -> None:
        """Count a pod."""
        self.pods[pod.uid] = pod
        add(self.requested, pod.requests, 1)
        add(self.counted, pod.counted, 1)

    def remove(self, uid: str) -> None:
        """Stop counting a pod that counts."""
        pod = self.pods.pop(uid)
        add(self.requested, pod.requests, -1)
        add(self.counted, pod.counted, -1)

    def copy(self) -> NodeInfo:
        """The same, to try things out on."""
        return NodeInfo(self.node, self.allocatable, dict(self.requested), dict(self.pods), dict(self.counted))


def add(to: Amounts, more: Amounts, sign: int) -> None:
    """Add (1) or take away (-1) in place."""
    for name, value in more.items():
        to[name] = to.get(name, 0) + sign * value


def node_info(node: Object) -> NodeInfo:
    """A node with nothing on it. Raises ValueError for a quantity that is none."""
    return NodeInfo(node, amounts((node.get("status") or {}).get("allocatable")))


def on_node(pod: Object, node: str = "", *, assumed: bool = False) -> PodOnNode:
    """The pod on a node, its own unless ``node`` is given. Raises ValueError for a quantity that is none."""
    return PodOnNode(node or node_of(pod), requests_of(pod), assumed, pod, tuple(host_ports(pod)), counted_of(pod))
