"""The scheduler's picture of the cluster: nodes, what the pods on them ask for, and which pods were promised a node.

A pod on a node is *assumed* from the moment the scheduler has decided, long before the API server agrees, so that the
next cycle counts it. The watch confirms it; a failed bind forgets it. Nothing expires on its own, as in kube-scheduler
since 1.23.

    (unknown) --assume--> assumed --place--> confirmed --remove--> (unknown)
                             |---forget----> (unknown)
"""

from __future__ import annotations

from dataclasses import dataclass, field

from clusters.amounts import Amounts, amounts_of, requests_of
from clusters.api.api_client import Object, uid_of
from clusters.embedded.scheduling.pod_fields import node_of, nominated_node_of

# The resources that scores look at, and the requests of a container that has none there, so that such pods spread.
COUNTED = {"cpu": "100m", "memory": str(200 * 1024 * 1024)}


@dataclass(frozen=True, slots=True)
class PodOnNode:
    """A pod that counts on a node. ``assumed``: the API server has not shown it bound."""

    node: str
    requests: Amounts
    assumed: bool
    pod: Object = field(default_factory=dict, repr=False)
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

    def add(self, pod: PodOnNode) -> None:
        """Count a pod."""
        self.pods[pod.uid] = pod
        _add(self.requested, pod.requests, 1)
        _add(self.counted, pod.counted, 1)

    def remove(self, uid: str) -> None:
        """Stop counting a pod that counts."""
        pod = self.pods.pop(uid)
        _add(self.requested, pod.requests, -1)
        _add(self.counted, pod.counted, -1)

    def copy(self) -> NodeInfo:
        """The same, to try things out on."""
        return NodeInfo(self.node, self.allocatable, dict(self.requested), dict(self.pods), dict(self.counted))


def _add(to: Amounts, more: Amounts, sign: int) -> None:
    for name, value in more.items():
        to[name] = to.get(name, 0) + sign * value


def node_info(node: Object) -> NodeInfo:
    """A node with nothing on it. Raises ValueError for a quantity that is none."""
    return NodeInfo(node, amounts_of((node.get("status") or {}).get("allocatable")))


def on_node(pod: Object, node: str = "", *, assumed: bool = False) -> PodOnNode:
    """The pod on a node, its own unless ``node`` is given. Raises ValueError for a quantity that is none."""
    return PodOnNode(node or node_of(pod), requests_of(pod), assumed, pod, counted_of(pod))


def counted_of(pod: Object) -> Amounts:
    """The pod's requests of cpu and memory as scores count them."""
    spec = pod["spec"]
    filled = {key: [_with_defaults(each) for each in spec.get(key) or []] for key in ("containers", "initContainers")}
    return requests_of({"spec": {**spec, **filled}})


def _with_defaults(container: Object) -> Object:
    resources = container.get("resources") or {}
    asked = {**COUNTED, **(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {**container, "resources": {"requests": {name: asked[name] for name in COUNTED}}}


class ClusterView:
    """Nodes in the order of their arrival, which the rotating start of the search goes by."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeInfo] = {}
        self._pods: dict[str, PodOnNode] = {}
        self._by_node: dict[str, dict[str, None]] = {}

    @property
    def nodes(self) -> list[NodeInfo]:
        """All nodes, in a list of its own."""
        return list(self._nodes.values())

    def node(self, name: str) -> NodeInfo | None:
        """One node."""
        return self._nodes.get(name)

    def set_node(self, node: Object) -> Object | None:
        """Add or replace a node; returns the one before. Pods seen before their node count immediately."""
        info = node_info(node)
        old = self._nodes.get(info.name)
        if old is not None:
            info.requested, info.pods, info.counted = old.requested, old.pods, old.counted
        else:
            for uid in self._by_node.get(info.name, ()):
                info.add(self._pods[uid])
        self._nodes[info.name] = info
        return None if old is None else old.node

    def remove_node(self, name: str) -> None:
        """Drop a node; its pods stay known until they are deleted."""
        self._nodes.pop(name, None)

    def assume(self, pod: Object, node: str) -> None:
        """Count a pod on the node that was chosen for it."""
        self._put(on_node(pod, node, assumed=True))

    def place(self, pod: Object) -> None:
        """Count a bound pod as the API server shows it."""
        self._put(on_node(pod))

    def forget(self, uid: str) -> bool:
        """Stop counting an assumed pod; one that the API server has shown as bound in between stays."""
        return self.is_assumed(uid) and self.remove(uid)

    def remove(self, uid: str) -> bool:
        """Stop counting a pod; whether it was counted."""
        old = self._pods.pop(uid, None)
        if old is None:
            return False
        del self._by_node[old.node][uid]
        if old.node in self._nodes:
            self._nodes[old.node].remove(uid)
        return True

    def is_assumed(self, uid: str) -> bool:
        """Whether the pod counts on a node though the API server has not shown it bound."""
        pod = self._pods.get(uid)
        return pod is not None and pod.assumed

    def _put(self, pod: PodOnNode) -> None:
        self.remove(pod.uid)
        self._pods[pod.uid] = pod
        self._by_node.setdefault(pod.node, {})[pod.uid] = None
        if pod.node in self._nodes:
            self._nodes[pod.node].add(pod)


class Nominations:
    """Pods by the node that they are nominated to, in memory before the API server knows."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, PodOnNode]] = {}
        self._node_of: dict[str, str] = {}

    def on(self, node: str) -> list[PodOnNode]:
        """The pods nominated to a node."""
        return list(self._by_node.get(node, {}).values())

    def set(self, pod: Object, node: str | None = None) -> None:
        """Nominate the pod to a node: None stands for the node in its status, the empty string for none."""
        self.delete(uid_of(pod))
        chosen = nominated_node_of(pod) if node is None else node
        if chosen:
            self._node_of[uid_of(pod)] = chosen
            self._by_node.setdefault(chosen, {})[uid_of(pod)] = on_node(pod, chosen)

    def update(self, old: Object, new: Object) -> None:
        """The pod has changed. A nomination that the API server has not shown yet is kept."""
        kept = self._node_of.get(uid_of(new))
        is_unseen = not nominated_node_of(old) and not nominated_node_of(new)
        self.set(new, kept if is_unseen else None)

    def delete(self, uid: str) -> None:
        """The pod is nominated to nothing any more."""
        node = self._node_of.pop(uid, None)
        if node is not None:
            del self._by_node[node][uid]
