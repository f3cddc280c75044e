"""The scheduler's picture of the cluster: nodes, and what the pods on them ask for.

A pod on a node is *assumed* from the moment the scheduler has decided, long before the API server agrees, so that the
next cycle counts it. The watch confirms it; a failed bind forgets it. Nothing expires by itself, as in kube-scheduler
since 1.23.

    (unknown) --assume--> assumed --place--> confirmed --remove--> (unknown)
                             |---forget----> (unknown)
"""

from __future__ import annotations

from dataclasses import dataclass, field

from clusters.api_client import Object
from clusters.embedded.scheduling.pod_requests import Amounts, node_of, requests_of, uid_of
from clusters.embedded.scheduling.quantities import amounts


@dataclass(slots=True)
class NodeInfo:
    """One node: the object, its allocatable amounts, and the sum of the requests on it."""

    node: Object
    allocatable: Amounts
    requested: Amounts = field(default_factory=dict)
    pod_count: int = 0

    @property
    def name(self) -> str:
        """The node's name."""
        return str(self.node["metadata"]["name"])


@dataclass(frozen=True, slots=True)
class PodOnNode:
    """A pod that counts on a node."""

    node: str
    requests: Amounts
    assumed: bool


def node_info(node: Object) -> NodeInfo:
    """A node with nothing on it. Raises ValueError for a quantity that is none."""
    return NodeInfo(node, amounts((node.get("status") or {}).get("allocatable")))


class ClusterView:
    """Nodes in the order of their arrival, which the rotating start of the search goes by."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeInfo] = {}
        self._pods: dict[str, PodOnNode] = {}
        self._by_node: dict[str, set[str]] = {}

    @property
    def nodes(self) -> list[NodeInfo]:
        """All nodes, in a list of its own."""
        return list(self._nodes.values())

    def node(self, name: str) -> NodeInfo | None:
        """One node."""
        return self._nodes.get(name)

    def set_node(self, node: Object) -> Object | None:
        """Add or replace a node; answers what was there. Pods seen before their node count at once."""
        info = node_info(node)
        old = self._nodes.get(info.name)
        if old is not None:
            info.requested, info.pod_count = old.requested, old.pod_count
        else:
            for uid in self._by_node.get(info.name, ()):
                count(info, self._pods[uid].requests, 1)
        self._nodes[info.name] = info
        return None if old is None else old.node

    def remove_node(self, name: str) -> None:
        """Drop a node; its pods stay known until they are deleted."""
        self._nodes.pop(name, None)

    def assume(self, pod: Object, node: str) -> None:
        """Count a pod on the node that was chosen for it."""
        self._put(uid_of(pod), PodOnNode(node, requests_of(pod), assumed=True))

    def place(self, pod: Object) -> PodOnNode | None:
        """Count a bound pod as the API server shows it; answers what was counted before."""
        uid = uid_of(pod)
        old = self._pods.get(uid)
        self._put(uid, PodOnNode(node_of(pod), requests_of(pod), assumed=False))
        return old

    def forget(self, uid: str) -> bool:
        """Stop counting an assumed pod; one that the API server has shown bound meanwhile stays."""
        return self.is_assumed(uid) and self.remove(uid)

    def remove(self, uid: str) -> bool:
        """Stop counting a pod; whether it was counted."""
        old = self._pods.pop(uid, None)
        if old is None:
            return False
        self._by_node[old.node].discard(uid)
        if old.node in self._nodes:
            count(self._nodes[old.node], old.requests, -1)
        return True

    def is_assumed(self, uid: str) -> bool:
        """Whether the pod counts on a node though the API server has not shown it bound."""
        pod = self._pods.get(uid)
        return pod is not None and pod.assumed

    def _put(self, uid: str, pod: PodOnNode) -> None:
        self.remove(uid)
        self._pods[uid] = pod
        self._by_node.setdefault(pod.node, set()).add(uid)
        if pod.node in self._nodes:
            count(self._nodes[pod.node], pod.requests, 1)


def count(info: NodeInfo, requests: Amounts, sign: int) -> None:
    """Add (1) or take away (-1) a pod's requests."""
    info.pod_count += sign
    for name, value in requests.items():
        info.requested[name] = info.requested.get(name, 0) + sign * value
