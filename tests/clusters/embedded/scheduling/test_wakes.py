from __future__ import annotations

from typing import Any

import pytest

from clusters.embedded.scheduling.fit import NODE_AFFINITY, NODE_RESOURCES_FIT, TAINT_TOLERATION
from clusters.embedded.scheduling.wakes import ClusterEvent, is_own_change, node_events, wakes
from tests.clusters.embedded.scheduling.objects import make_node, make_pod


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (ClusterEvent.POD_DELETED, True),
        (ClusterEvent.POD_ADDED, False),
        (ClusterEvent.POD_UPDATED, False),
        (ClusterEvent.POD_SCALED_DOWN, True),
        (ClusterEvent.NODE_ADDED, True),
        (ClusterEvent.NODE_ALLOCATABLE, True),
        (ClusterEvent.NODE_LABELS, True),
        (ClusterEvent.NODE_TAINTS, True),
        (ClusterEvent.NODE_CONDITIONS, True),
        (ClusterEvent.NODE_ANNOTATIONS, True),
        (ClusterEvent.STORAGE, True),
        (ClusterEvent.OWN, True),
        (ClusterEvent.CONFIG_MAP, False),
    ],
)
def test_wakes_a_pod_that_an_extender_refused(event: ClusterEvent, expected: bool) -> None:
    """The table of what gives such a pod another try in kube-scheduler 1.30 and newer."""
    assert expected is wakes(event)


@pytest.mark.parametrize(
    ("rejector", "event", "expected"),
    [
        (NODE_RESOURCES_FIT, ClusterEvent.POD_DELETED, True),
        (NODE_RESOURCES_FIT, ClusterEvent.NODE_ANNOTATIONS, False),
        (NODE_AFFINITY, ClusterEvent.NODE_LABELS, True),
        (NODE_AFFINITY, ClusterEvent.POD_DELETED, False),
        (TAINT_TOLERATION, ClusterEvent.NODE_TAINTS, True),
        (TAINT_TOLERATION, ClusterEvent.NODE_ALLOCATABLE, False),
    ],
)
def test_wakes_a_pod_that_only_an_in_tree_filter_refused(rejector: str, event: ClusterEvent, expected: bool) -> None:
    assert expected is wakes(event, frozenset({rejector}))


def test_wakes_if_any_rejector_may_change_its_mind() -> None:
    assert wakes(ClusterEvent.NODE_LABELS, frozenset({NODE_RESOURCES_FIT, NODE_AFFINITY}))


NODE = make_node()


@pytest.mark.parametrize(
    ("change", "events"),
    [
        ({}, set()),
        ({"metadata": {**NODE["metadata"], "resourceVersion": "7"}}, set()),
        ({"metadata": {**NODE["metadata"], "labels": {}}}, {ClusterEvent.NODE_LABELS}),
        ({"metadata": {**NODE["metadata"], "annotations": {"a": "b"}}}, {ClusterEvent.NODE_ANNOTATIONS}),
        ({"spec": {"unschedulable": True}}, {ClusterEvent.NODE_TAINTS}),
        ({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}, {ClusterEvent.NODE_TAINTS}),
        ({"status": {"allocatable": {"cpu": "1"}}}, {ClusterEvent.NODE_ALLOCATABLE}),
        (
            {"status": {**NODE["status"], "conditions": [{"type": "Ready", "status": "True"}]}},
            {ClusterEvent.NODE_CONDITIONS},
        ),
    ],
    ids=["nothing", "version", "labels", "annotations", "cordon", "taints", "allocatable", "conditions"],
)
def test_node_events_of_each_change(change: dict[str, Any], events: set[ClusterEvent]) -> None:
    assert events == node_events(NODE, {**NODE, **change})


def test_node_events_ignore_a_heartbeat() -> None:
    """A kubelet's heartbeat changes nothing but times, every few minutes."""
    beats = [[{"type": "Ready", "status": "True", "lastHeartbeatTime": time}] for time in ("1", "2")]
    old, new = ({**NODE, "status": {**NODE["status"], "conditions": each}} for each in beats)

    assert set() == node_events(old, new)


def test_node_events_of_a_new_node() -> None:
    assert {ClusterEvent.NODE_ADDED} == node_events(None, NODE)


def test_is_own_change_not_for_the_scheduler_s_own_condition() -> None:
    """Else every failed attempt would wake its own pod."""
    pod = make_pod()

    assert not is_own_change(pod, {**pod, "status": {"conditions": [{"type": "PodScheduled"}]}})
    assert is_own_change(pod, {**pod, "metadata": {**pod["metadata"], "annotations": {"a": "b"}}})
    assert is_own_change(pod, {**pod, "spec": {**pod["spec"], "tolerations": [{"operator": "Exists"}]}})
