"""The scheduler's picture of the cluster: nodes, and what the pods on them ask for.

A pod on a node is *assumed* from the moment the scheduler has decided, long before the API server agrees, so that the
next cycle counts it. The watch confirms it; a failed bind forgets it. Nothing expires on its own, as in kube-scheduler
since 1.23.

    (unknown) --assume--> assumed --place--> confirmed --remove--> (unknown)
                             |---forget----> (unknown)
"""

from __future__ import annotations

from clusters.api_client import Object
from clusters.embedded.scheduling.node_state import NodeInfo, PodOnNode, node_info, on_node
from clusters.embedded.scheduling.scheduler_pod_requests import uid_of


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

    def place(self, pod: Object) -> PodOnNode | None:
        """Count a bound pod as the API server shows it; answers what was counted before."""
        old = self._pods.get(uid_of(pod))
        self._put(on_node(pod))
        return old

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
