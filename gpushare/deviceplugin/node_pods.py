"""The pods of our node in the order in which they were bound: the only mutable state beside what was granted.

The order is what the API's watch shows: a pod enters the watch of its node with its Binding. Where several pods are
seen at once (a fresh start, a new list) they are sorted by the time at which they were assumed, which is close to it.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpushare import wire
from gpushare.manifests import ObjectMeta, Pod


class NodePods:
    """Pods of one node; feed it from a watch, and from a fresh list where the watch may be behind."""

    def __init__(self) -> None:
        # A dict keeps the order of insertion, and an update in place keeps its place.
        self._pods: dict[str, Pod] = {}

    def in_bind_order(self) -> tuple[Pod, ...]:
        """All pods, first bound first."""
        return tuple(self._pods.values())

    def replace(self, pods: Iterable[Pod]) -> None:
        """Take a complete list: who is not on it is gone, who is new comes last."""
        listed = {pod.metadata.uid: pod for pod in sorted(pods, key=_assume_time)}
        for uid in self._pods.keys() - listed.keys():
            del self._pods[uid]
        self._pods.update(listed)

    def set(self, pod: Pod) -> None:
        """A pod was bound here, or changed."""
        self._pods[pod.metadata.uid] = pod

    def remove(self, metadata: ObjectMeta) -> None:
        """A pod is gone."""
        self._pods.pop(metadata.uid, None)

    def find(self, namespace: str, name: str) -> Pod | None:
        """The pod of that name; the newest where an old one of the same name is still known."""
        found = [pod for pod in self._pods.values() if (pod.metadata.namespace, pod.metadata.name) == (namespace, name)]
        return found[-1] if found else None


def _assume_time(pod: Pod) -> tuple[int, str, str]:
    text = (pod.metadata.annotations or {}).get(wire.ANNOTATION_ASSUME_TIME, "")
    time = int(text) if text.isascii() and text.isdigit() else 0
    return time, pod.metadata.creation_timestamp or "", pod.metadata.name
