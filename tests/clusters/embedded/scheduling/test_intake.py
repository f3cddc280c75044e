"""Which pods enter the embedded scheduler's queue."""

from __future__ import annotations

from typing import Any

from clusters.embedded.scheduling.cluster_view import ClusterView, Nominations
from clusters.embedded.scheduling.fit import EXTENDER, NODE_RESOURCES_FIT
from clusters.embedded.scheduling.intake import Intake
from clusters.embedded.scheduling.queue import Pool, SchedulingQueue
from tests.clusters.embedded.scheduling.scheduling_objects import MEMORY, make_node, make_pod

UID = "uid-p1"


class Parts:
    """An intake and what it feeds, with one node."""

    def __init__(self) -> None:
        self.view = ClusterView()
        self.queue = SchedulingQueue()
        self.nominations = Nominations()
        self.intake = Intake(self.view, self.queue, ["default-scheduler"], self.nominations)
        self.intake.take_node("ADDED", make_node("n1", {MEMORY: "10"}), 0)

    def take(self, pod: dict[str, Any], kind: str = "MODIFIED") -> None:
        self.intake.take_pod(kind, pod, 100)

    def used(self) -> int:
        info = self.view.node("n1")
        assert info is not None
        return info.requested.get(MEMORY, 0)

    def refuse(self, name: str, rejector: str = EXTENDER, **spec: Any) -> None:
        """Let a waiting pod be refused long ago, by an extender unless another is named."""
        self.intake.take_pod("ADDED", make_pod(name, **spec), 0)
        item = self.queue.pop(0)
        assert item is not None
        self.queue.requeue_rejected(item, item.pod, frozenset({rejector}), 0)

    def woken(self, name: str) -> bool:
        return self.queue.pool_of(f"uid-{name}") is Pool.ACTIVE


def bound(units: int = 4, **metadata: Any) -> dict[str, Any]:
    pod = make_pod("p1", {MEMORY: str(units)}, nodeName="n1")
    return {**pod, "metadata": {**pod["metadata"], **metadata}}


def test_a_waiting_pod_is_queued_once() -> None:
    """A second event of the same pod does not queue it again."""
    parts = Parts()
    parts.take(make_pod("p1"), "ADDED")
    parts.take(make_pod("p1"))

    assert parts.queue.pop(100) is not None
    parts.take(make_pod("p1"))
    assert parts.queue.pop(100) is None


def test_pods_of_other_schedulers_are_counted_but_not_queued() -> None:
    """Once bound, they use their node's resources."""
    parts = Parts()
    parts.take(make_pod("p1", schedulerName="other"))
    assert parts.queue.pool_of(UID) is None

    parts.take(make_pod("p1", {MEMORY: "4"}, schedulerName="other", nodeName="n1"))
    assert parts.used() == 4


def test_pod_deleted_during_its_bind_gives_its_room_back() -> None:
    """The assumed room is free, and a pod that lacks room is woken."""
    parts = Parts()
    parts.refuse("waiting")
    parts.view.assume(make_pod("p1", {MEMORY: "4"}), "n1")
    pod = make_pod("p1", {MEMORY: "4"})
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    parts.take(pod)

    assert parts.used() == 0
    assert parts.woken("waiting")


def test_a_bound_pod_counts_until_it_ends() -> None:
    """A pod that is only being deleted still counts: its containers may run."""
    parts = Parts()
    parts.take(bound(deletionTimestamp="2026-01-01T00:00:00Z"))
    assert parts.used() == 4

    parts.take({**bound(), "status": {"phase": "Succeeded"}})
    assert parts.used() == 0


def test_a_pod_bound_by_another_program_leaves_the_queue() -> None:
    """A pod with a node is not scheduled."""
    parts = Parts()
    parts.take(make_pod("p1"))
    parts.take(bound())

    assert parts.queue.pop(100) is None


def test_an_assumed_pod_is_not_queued_again_by_its_own_updates() -> None:
    """An assumed pod is not queued by its own update and stays counted on its node."""
    parts = Parts()
    parts.view.assume(make_pod("p1", {MEMORY: "4"}), "n1")
    parts.take(make_pod("p1", {MEMORY: "4"}))

    assert parts.queue.pop(100) is None
    assert parts.used() == 4


def test_only_new_room_wakes_pods_that_lack_room() -> None:
    """A new or changed pod wakes no pod that lacks room, the end of one does."""
    parts = Parts()
    parts.refuse("waiting", NODE_RESOURCES_FIT)

    parts.take(bound())
    parts.take(bound(labels={"a": "b"}))
    assert not parts.woken("waiting")

    parts.take(bound(), "DELETED")
    assert parts.woken("waiting")


def test_a_nominated_pod_counts_for_others_until_it_gives_up() -> None:
    """The end of a nomination wakes the pods that yielded to it, but none with a higher priority."""
    parts = Parts()
    parts.refuse("waiting", NODE_RESOURCES_FIT)
    parts.refuse("important", NODE_RESOURCES_FIT, priority=9)
    nominated = {**make_pod("p1", priority=5), "status": {"nominatedNodeName": "n1"}}
    parts.take(nominated)
    assert ["uid-p1"] == [each.uid for each in parts.nominations.on("n1")]

    parts.take({**nominated, "status": {}})

    assert [] == parts.nominations.on("n1")
    assert parts.woken("waiting")
    assert not parts.woken("important")


def test_a_nominated_pod_that_is_deleted_gives_up() -> None:
    """The pods that it kept from its node are woken."""
    parts = Parts()
    parts.refuse("waiting", NODE_RESOURCES_FIT)
    nominated = {**make_pod("p1"), "status": {"nominatedNodeName": "n1"}}
    parts.take(nominated)
    parts.take(nominated, "DELETED")

    assert parts.woken("waiting")


def test_a_waiting_pod_that_is_deleted_wakes_no_other() -> None:
    """The deletion of a waiting pod wakes no other, because it held no room."""
    parts = Parts()
    parts.refuse("waiting")
    parts.take(make_pod("p1"))
    parts.take(make_pod("p1"), "DELETED")

    assert not parts.woken("waiting")
    assert parts.intake.pod(UID) is None


def test_a_node_that_is_gone_takes_no_pods() -> None:
    """A node that is gone leaves the view."""
    parts = Parts()
    parts.intake.take_node("DELETED", make_node("n1"), 100)

    assert [] == parts.view.nodes
