"""Which changes make the embedded scheduler try a pod again."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.embedded.scheduling.fit import EXTENDER, NODE_AFFINITY, NODE_RESOURCES_FIT, TAINT_TOLERATION
from clusters.embedded.scheduling.wakes import Change, assigned_change, node_changes, own_change, wakes
from tests.clusters.embedded.scheduling.scheduling_objects import make_node, make_pod

NODE = make_node()


@pytest.mark.parametrize("change", Change)
def test_every_change_wakes_a_pod_that_an_extender_refused(change: Change) -> None:
    """Every change wakes a pod that an extender refused, as in kube-scheduler since queueing hints are stable (1.34)."""
    assert wakes(frozenset({EXTENDER, NODE_AFFINITY}), change)


@pytest.mark.parametrize(
    ("rejector", "cures", "no_cure"),
    [
        (NODE_RESOURCES_FIT, Change.POD_DELETED, Change.POD_ADDED),
        (NODE_AFFINITY, Change.NODE_LABELS, Change.POD_DELETED),
        (TAINT_TOLERATION, Change.OWN_TOLERATIONS, Change.NODE_ALLOCATABLE),
    ],
)
def test_other_refusals_wake_for_what_can_cure_them(rejector: str, cures: Change, no_cure: Change) -> None:
    """Each filter has its kinds of change."""
    assert wakes(frozenset({rejector}), cures)
    assert not wakes(frozenset({rejector}), no_cure)


@pytest.mark.parametrize(
    ("change", "changes"),
    [
        ({"metadata": {**NODE["metadata"], "resourceVersion": "7"}}, []),
        ({"metadata": {**NODE["metadata"], "labels": {}}}, [Change.NODE_LABELS]),
        ({"metadata": {**NODE["metadata"], "annotations": {"a": "b"}}}, [Change.NODE_ANNOTATIONS]),
        ({"spec": {"unschedulable": True}}, []),
        ({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}, [Change.NODE_TAINTS]),
        ({"status": {"allocatable": {"cpu": "1"}}}, [Change.NODE_ALLOCATABLE]),
        ({"status": {**NODE["status"], "conditions": [{"type": "Ready", "status": "True"}]}}, [Change.NODE_CONDITIONS]),
    ],
    ids=["version", "labels", "annotations", "cordon", "taints", "allocatable", "conditions"],
)
def test_each_part_of_a_node_has_its_change(change: dict[str, Any], changes: list[Change]) -> None:
    """A new version alone and a cordon have none."""
    assert changes == node_changes(NODE, {**NODE, **change})


def test_a_heartbeat_is_no_change() -> None:
    """A kubelet's heartbeat changes nothing but times, every few minutes."""
    beats = [[{"type": "Ready", "status": "True", "lastHeartbeatTime": time}] for time in ("1", "2")]
    old, new = ({**NODE, "status": {**NODE["status"], "conditions": each}} for each in beats)

    assert [] == node_changes(old, new)


def test_an_uncordon_and_a_new_node_are_changes() -> None:
    """A cordon can help no pod, its end can."""
    assert [Change.NODE_TAINTS] == node_changes(make_node(unschedulable=True), NODE)
    assert [Change.NODE_ADDED] == node_changes(None, NODE)


def test_changes_of_pods() -> None:
    """A pod is added when it is bound; of the waiting pod itself only its tolerations count apart from the rest."""
    pod, bound = make_pod(), make_pod(nodeName="n1")
    tolerant = make_pod(tolerations=[{"operator": "Exists"}])

    assert [assigned_change(each) for each in (None, pod)] == [Change.POD_ADDED] * 2
    assert assigned_change(bound) is Change.POD_UPDATED
    assert own_change(pod, {**pod, "status": {}}) is Change.OWN_UPDATED
    assert own_change(pod, tolerant) is Change.OWN_TOLERATIONS
