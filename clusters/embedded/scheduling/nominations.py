"""Which waiting pods have been promised a node, because others are evicted from it for them."""

from __future__ import annotations

from clusters.api_client import Object
from clusters.embedded.scheduling.cluster_view import PodOnNode, on_node
from clusters.embedded.scheduling.pod_fields import nominated_node_of, uid_of


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
