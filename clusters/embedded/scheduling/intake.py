"""Takes what the watches report into the view and the queue; no I/O, and the clock's reading is passed in."""

from __future__ import annotations

from collections.abc import Collection

from clusters.api.api_client import Object
from clusters.embedded.scheduling.cluster_view import ClusterView, Nominations
from clusters.embedded.scheduling.pod_fields import (
    is_being_deleted,
    is_terminal,
    node_of,
    nominated_node_of,
    priority_of,
    scheduler_of,
    uid_of,
)
from clusters.embedded.scheduling.queue import SchedulingQueue
from clusters.embedded.scheduling.wakes import Change, node_changes


class Intake:
    """The scheduler's copy of the pods, and what each change of a pod or node means."""

    def __init__(
        self,
        view: ClusterView,
        queue: SchedulingQueue,
        scheduler_names: Collection[str],
        nominations: Nominations | None = None,
    ) -> None:
        self._view = view
        self._queue = queue
        self._names = scheduler_names
        self._nominations = nominations or Nominations()
        self._pods: dict[str, Object] = {}

    def pod(self, uid: str) -> Object | None:
        """The last state seen of a pod that has not ended."""
        return self._pods.get(uid)

    def take_node(self, kind: str, node: Object, now: float) -> None:
        """A watch event of a node. Raises ValueError for a quantity that is none."""
        if kind == "DELETED":
            self._view.remove_node(node["metadata"]["name"])
            self._queue.wake([Change.NODE_DELETED], now)
        else:
            self._queue.wake(node_changes(self._view.set_node(node), node), now)

    def take_pod(self, kind: str, pod: Object, now: float) -> None:
        """A watch event of a pod. Raises ValueError for a quantity that is none."""
        uid = uid_of(pod)
        old = self._pods.get(uid)
        if kind == "DELETED" or is_terminal(pod):
            self._take_end(old or pod, now)
        elif node_of(pod):
            self._pods[uid] = pod
            self._queue.delete(uid)
            self._nominations.delete(uid)
            self._view.place(pod)
            is_known = old is not None and node_of(old)
            self._queue.wake([Change.POD_UPDATED if is_known else Change.POD_ADDED], now)
        else:
            self._pods[uid] = pod
            self._take_waiting(old, pod, now)

    def _take_end(self, pod: Object, now: float) -> None:
        """A pod that is gone or has ended left room, or the node that it was nominated to."""
        uid = uid_of(pod)
        self._pods.pop(uid, None)
        self._queue.delete(uid)
        self._nominations.delete(uid)
        if self._view.remove(uid):
            self._queue.wake([Change.POD_DELETED], now)
        elif nominated_node_of(pod):
            self._give_up(pod, now)

    def _take_waiting(self, old: Object | None, pod: Object, now: float) -> None:
        uid = uid_of(pod)
        if scheduler_of(pod) not in self._names:
            return
        if self._view.is_assumed(uid):
            self._take_assumed(pod, now)
            return
        if self._queue.is_in_flight(uid):
            self._queue.note(old or pod, pod)
        elif self._queue.pool_of(uid) is None:
            self._queue.add(pod, now)
            self._nominations.set(pod)
        else:
            self._queue.update(pod, now)
            self._nominations.update(old or pod, pod)
        if old is not None and nominated_node_of(old) and nominated_node_of(old) != nominated_node_of(pod):
            self._give_up(old, now)

    def _take_assumed(self, pod: Object, now: float) -> None:
        """A pod that is being bound: its deletion gives its room back."""
        if is_being_deleted(pod) and self._view.forget(uid_of(pod)):
            self._queue.wake([Change.POD_DELETED], now)

    def _give_up(self, pod: Object, now: float) -> None:
        """The node that the pod was nominated to is free again for those that had to yield to it."""
        priority = priority_of(pod)
        self._queue.wake([Change.POD_DELETED], now, concerns=lambda other: priority_of(other) <= priority)
