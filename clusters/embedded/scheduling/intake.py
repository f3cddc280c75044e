"""Takes what the watches report into the view and the queue; no I/O, and the clock's reading is passed in."""

from __future__ import annotations

from collections.abc import Collection

from clusters.api_client import Object
from clusters.embedded.scheduling.cluster_view import ClusterView, PodOnNode
from clusters.embedded.scheduling.pod_requests import (
    Amounts,
    is_being_deleted,
    is_terminal,
    node_of,
    requests_of,
    uid_of,
)
from clusters.embedded.scheduling.queue import SchedulingQueue
from clusters.embedded.scheduling.wakes import ClusterEvent, is_own_change, node_events


class Intake:
    """The scheduler's copy of the pods, and what each change of a pod or node means."""

    def __init__(self, view: ClusterView, queue: SchedulingQueue, scheduler_names: Collection[str]) -> None:
        self._view = view
        self._queue = queue
        self._names = scheduler_names
        self._pods: dict[str, Object] = {}

    def pod(self, uid: str) -> Object | None:
        """The last state seen of a pod that has not ended."""
        return self._pods.get(uid)

    def take_node(self, kind: str, node: Object, now: float) -> None:
        """A watch event of a node. Raises ValueError for a quantity that is none."""
        if kind == "DELETED":
            self._view.remove_node(node["metadata"]["name"])
        else:
            self._queue.wake(node_events(self._view.set_node(node), node), now)

    def take_pod(self, kind: str, pod: Object, now: float) -> None:
        """A watch event of a pod. Raises ValueError for a quantity that is none."""
        uid = uid_of(pod)
        if kind == "DELETED" or is_terminal(pod):
            self._pods.pop(uid, None)
            self._queue.delete(uid)
            if self._view.remove(uid):
                self._queue.wake({ClusterEvent.POD_DELETED}, now)
            return
        old = self._pods.get(uid)
        self._pods[uid] = pod
        if node_of(pod):
            self._queue.delete(uid)
            self._queue.wake(assigned_events(self._view.place(pod), requests_of(pod)), now)
        else:
            self._take_waiting(uid, old, pod, now)

    def _take_waiting(self, uid: str, old: Object | None, pod: Object, now: float) -> None:
        if pod["spec"].get("schedulerName", "default-scheduler") not in self._names or self._view.is_assumed(uid):
            return
        if is_being_deleted(pod):
            self._queue.delete(uid)
        elif self._queue.pool_of(uid) is None and not self._queue.is_in_flight(uid):
            self._queue.add(pod, now)
        else:
            self._queue.update(pod, now, own_change=old is None or is_own_change(old, pod))


def assigned_events(before: PodOnNode | None, requests: Amounts) -> set[ClusterEvent]:
    """What a pod on a node means for others: less than before is room for them."""
    if before is None:
        return {ClusterEvent.POD_ADDED}
    if any(requests.get(name, 0) < value for name, value in before.requests.items()):
        return {ClusterEvent.POD_SCALED_DOWN}
    return {ClusterEvent.POD_UPDATED}
