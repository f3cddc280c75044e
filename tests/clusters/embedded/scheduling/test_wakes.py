from __future__ import annotations

from typing import Any

import pytest

from clusters.embedded.scheduling.fit import (
    EXTENDER,
    NODE_AFFINITY,
    NODE_PORTS,
    NODE_RESOURCES_FIT,
    NODE_UNSCHEDULABLE,
    TAINT_TOLERATION,
)
from clusters.embedded.scheduling.wakes import (
    Change,
    ClusterEvent,
    assigned_event,
    node_events,
    own_event,
    wakes,
)
from tests.clusters.embedded.scheduling.scheduling_objects import MEMORY, make_node, make_pod

NODE = make_node()
TAINTED = make_node(taints=[{"key": "k", "effect": "NoSchedule"}])
CORDONED = make_node(unschedulable=True)
BIG, SMALL = make_node("n1", {MEMORY: "10"}), make_node("n1", {MEMORY: "1"})
GONE = make_pod("gone", nodeName="n1")


@pytest.mark.parametrize("change", Change)
def test_every_change_wakes_a_pod_that_an_extender_refused(change: Change) -> None:
    """As kube-scheduler does since queueing hints are for good (1.34)."""
    assert wakes(make_pod(), frozenset({EXTENDER}), ClusterEvent(change))


def event(change: Change, old: dict[str, Any] | None = None, new: dict[str, Any] | None = None) -> ClusterEvent:
    return ClusterEvent(change, old, new)


def port_80(name: str, **spec: Any) -> dict[str, Any]:
    pod = make_pod(name, **spec)
    pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    return pod


@pytest.mark.parametrize(
    ("rejector", "pod", "event", "expected"),
    [
        (NODE_RESOURCES_FIT, make_pod(), event(Change.POD_DELETED, GONE), True),
        (NODE_RESOURCES_FIT, make_pod(), event(Change.POD_DELETED, make_pod("waited")), False),
        (NODE_RESOURCES_FIT, make_pod(), event(Change.NODE_ANNOTATIONS, NODE, NODE), False),
        (NODE_RESOURCES_FIT, make_pod(limits={MEMORY: "5"}), event(Change.NODE_ADDED, None, BIG), True),
        (NODE_RESOURCES_FIT, make_pod(limits={MEMORY: "5"}), event(Change.NODE_ADDED, None, SMALL), False),
        (NODE_RESOURCES_FIT, make_pod(limits={MEMORY: "5"}), event(Change.NODE_ALLOCATABLE, SMALL, BIG), True),
        (NODE_RESOURCES_FIT, make_pod(limits={"cpu": "5"}), event(Change.NODE_ALLOCATABLE, SMALL, BIG), False),
        (NODE_RESOURCES_FIT, make_pod(), event(Change.NODE_ALLOCATABLE), False),
        (
            NODE_RESOURCES_FIT,
            make_pod(limits={MEMORY: "5"}),
            event(Change.POD_SCALED_DOWN, make_pod(limits={MEMORY: "2"}), make_pod(limits={MEMORY: "1"})),
            True,
        ),
        (
            NODE_RESOURCES_FIT,
            make_pod(limits={"cpu": "5"}),
            event(Change.POD_SCALED_DOWN, make_pod(limits={MEMORY: "2"}), make_pod(limits={MEMORY: "1"})),
            False,
        ),
        (
            NODE_AFFINITY,
            make_pod(nodeSelector={"kubernetes.io/hostname": "n1"}),
            event(Change.NODE_ADDED, None, NODE),
            True,
        ),
        (NODE_AFFINITY, make_pod(nodeSelector={"a": "b"}), event(Change.NODE_ADDED, None, NODE), False),
        (NODE_AFFINITY, make_pod(), event(Change.NODE_LABELS, NODE, NODE), False),
        (NODE_AFFINITY, make_pod(), event(Change.POD_DELETED, GONE), False),
        (TAINT_TOLERATION, make_pod(), event(Change.NODE_TAINTS, TAINTED, NODE), True),
        (TAINT_TOLERATION, make_pod(), event(Change.NODE_TAINTS, NODE, TAINTED), False),
        (TAINT_TOLERATION, make_pod(), event(Change.NODE_ALLOCATABLE, TAINTED, NODE), False),
        (TAINT_TOLERATION, make_pod(), event(Change.OWN_TOLERATIONS), True),
        (NODE_UNSCHEDULABLE, make_pod(), event(Change.NODE_TAINTS, CORDONED, NODE), True),
        (NODE_UNSCHEDULABLE, make_pod(), event(Change.NODE_TAINTS, NODE, NODE), False),
        (NODE_UNSCHEDULABLE, make_pod(), event(Change.NODE_ADDED, None, CORDONED), False),
        (NODE_UNSCHEDULABLE, make_pod(), event(Change.OWN_TOLERATIONS), False),
        (NODE_UNSCHEDULABLE, make_pod(tolerations=[{"operator": "Exists"}]), event(Change.OWN_TOLERATIONS), True),
        (NODE_PORTS, port_80("p1"), event(Change.POD_DELETED, port_80("gone", nodeName="n1")), True),
        (NODE_PORTS, port_80("p1"), event(Change.POD_DELETED, GONE), False),
        (NODE_PORTS, port_80("p1"), event(Change.NODE_ADDED, None, NODE), True),
    ],
)
def test_wakes_a_pod_only_for_what_can_change_the_filter_s_mind(
    rejector: str, pod: dict[str, Any], event: ClusterEvent, expected: bool
) -> None:
    """Each filter has the hints of kube-scheduler 1.36."""
    assert expected is wakes(pod, frozenset({rejector}), event)


def test_wakes_if_any_rejector_may_change_its_mind() -> None:
    """One of several is enough."""
    assert wakes(make_pod(), frozenset({NODE_RESOURCES_FIT, NODE_AFFINITY}), event(Change.NODE_ADDED, None, NODE))


@pytest.mark.parametrize(
    ("change", "events"),
    [
        ({}, []),
        ({"metadata": {**NODE["metadata"], "resourceVersion": "7"}}, []),
        ({"metadata": {**NODE["metadata"], "labels": {}}}, [Change.NODE_LABELS]),
        ({"metadata": {**NODE["metadata"], "annotations": {"a": "b"}}}, [Change.NODE_ANNOTATIONS]),
        ({"spec": {"unschedulable": True}}, []),
        ({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}, [Change.NODE_TAINTS]),
        ({"status": {"allocatable": {"cpu": "1"}}}, [Change.NODE_ALLOCATABLE]),
        ({"status": {**NODE["status"], "conditions": [{"type": "Ready", "status": "True"}]}}, [Change.NODE_CONDITIONS]),
    ],
    ids=["nothing", "version", "labels", "annotations", "cordon", "taints", "allocatable", "conditions"],
)
def test_node_events_of_each_change(change: dict[str, Any], events: list[Change]) -> None:
    """Each part of a node has its own event; a new version alone and a cordon have none."""
    assert events == [each.change for each in node_events(NODE, {**NODE, **change})]


def test_node_events_of_an_uncordon() -> None:
    """Only in that direction it can help a pod."""
    assert [Change.NODE_TAINTS] == [each.change for each in node_events(CORDONED, NODE)]


def test_node_events_ignore_a_heartbeat() -> None:
    """A kubelet's heartbeat changes nothing but times, every few minutes."""
    beats = [[{"type": "Ready", "status": "True", "lastHeartbeatTime": time}] for time in ("1", "2")]
    old, new = ({**NODE, "status": {**NODE["status"], "conditions": each}} for each in beats)

    assert [] == node_events(old, new)


def test_node_events_of_a_new_node() -> None:
    """It is one event."""
    assert [Change.NODE_ADDED] == [each.change for each in node_events(None, NODE)]


def test_own_event_tells_tolerations_from_the_rest() -> None:
    """Only more or fewer tolerations count as such."""
    pod = make_pod()

    assert own_event(pod, {**pod, "status": {}}).change is Change.OWN_UPDATED
    tolerant = {**pod, "spec": {**pod["spec"], "tolerations": [{"operator": "Exists"}]}}
    assert own_event(pod, tolerant).change is Change.OWN_TOLERATIONS


def test_assigned_event_of_a_pod_s_life() -> None:
    """A pod is added when it is bound, and scaled down when it asks for less."""
    pod, bound = make_pod(limits={MEMORY: "2"}), make_pod(limits={MEMORY: "2"}, nodeName="n1")
    smaller = make_pod(limits={MEMORY: "1"}, nodeName="n1")

    assert assigned_event(None, bound).change is Change.POD_ADDED
    assert assigned_event(pod, bound).change is Change.POD_ADDED
    assert assigned_event(bound, bound).change is Change.POD_UPDATED
    assert assigned_event(bound, smaller).change is Change.POD_SCALED_DOWN
