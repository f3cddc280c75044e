"""Promises of clusters.embedded.apiserver.api_binding: the rules of the binding subresource."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.embedded.apiserver.api_binding import bound
from tests.clusters.embedded.apiserver.samples import Object, binding, refused

NOW = "2026-01-02T03:04:05Z"


def stored_pod(**more: Any) -> Object:
    """A pod as it is stored; ``more`` goes to metadata and spec by name."""
    metadata = {
        "name": "p",
        "namespace": "default",
        "uid": "u",
        "resourceVersion": "5",
        "annotations": {"a": "old", "b": "kept"},
    }
    for key in ("deletionTimestamp",):
        if key in more:
            metadata[key] = more.pop(key)
    return {"metadata": metadata, "spec": {"containers": [], **more}, "status": {"phase": "Pending"}}


def test_one_write_has_node_annotations_and_condition() -> None:
    """The Binding's annotations win, others stay; the pod before stays as it was."""
    before = stored_pod()
    pod = bound(before, binding(annotations={"a": "new", "c": "1"}), NOW)

    assert pod["spec"]["nodeName"] == "n"
    assert pod["metadata"]["annotations"] == {"a": "new", "b": "kept", "c": "1"}
    assert pod["status"]["conditions"] == [
        {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": NOW}
    ]
    assert before == stored_pod()


def test_the_condition_takes_the_place_of_the_refusal_before() -> None:
    """PodScheduled=False goes, other conditions stay, the nomination is over."""
    pod = stored_pod()
    waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    pod["status"] |= {"conditions": [{"type": "x", "status": "True"}, waiting], "nominatedNodeName": "m"}
    status = bound(pod, binding(), NOW)["status"]

    assert [each["status"] for each in status["conditions"]] == ["True", "True"]
    assert "reason" not in status["conditions"][1]
    assert "nominatedNodeName" not in status


@pytest.mark.parametrize(
    ("pod", "request_body", "text"),
    [
        (stored_pod(nodeName="m"), binding(), 'pod p is already assigned to node "m"'),
        (stored_pod(nodeName="n"), binding(), 'pod p is already assigned to node "n"'),
        (stored_pod(deletionTimestamp=NOW), binding(), "is being deleted, cannot be assigned to a host"),
        (stored_pod(schedulingGates=[{"name": "g"}]), binding(), "has non-empty .spec.schedulingGates"),
        (stored_pod(), binding(uid="other"), "Precondition failed: UID in precondition: other, UID in object meta: u"),
        (
            stored_pod(),
            binding(resourceVersion="4"),
            "ResourceVersion in precondition: 4, ResourceVersion in object meta: 5",
        ),
    ],
    ids=["other node", "same node", "deleting", "gated", "uid", "version"],
)
def test_a_pod_that_cannot_be_bound_is_a_conflict(pod: Object, request_body: Object, text: str) -> None:
    """409 each time."""
    assert text in refused(409, lambda: bound(pod, request_body, NOW)).message
