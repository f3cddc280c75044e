"""Promises of the document of ``explain``."""

from __future__ import annotations

import time
from typing import Any

import pytest

from gpushare.extender.core.explain import MOST_NODES
from gpushare.kubectl_gpushare.core.explanation import explain_pod
from tests.gpushare.kubectl_gpushare.small_cluster import Object, cluster, event, node, pod, subject


def explained(asked: Object, *objects: Object) -> dict[str, Any]:
    """The document about a pod of the cluster, which is in the list of pods too."""
    return explain_pod(subject(asked), cluster(*objects, asked), ())


def test_a_node_that_takes_the_pod_comes_first() -> None:
    """Before one that is too full or has no such card, and that before one that a rule excludes."""
    asked = pod(wishes={"card-model": "A100"})
    objects = (node("a", spec={"unschedulable": True}, model="A100"), node("b"), node("c", 4, model="A100"))
    many = (node(f"n{at:03}", 14) for at in range(MOST_NODES))

    assert [one["name"] for one in explained(asked, *objects)["nodes"]] == ["c", "b", "a"]
    left = explained(pod(), node("a", spec={"unschedulable": True}), node("b", 13), *many)
    assert (left["nodes"][-1]["name"], left["nodesLeftOut"]) == (f"n{MOST_NODES - 1:03}", 2)


def test_times_are_those_of_the_api(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the zone of the person is."""
    monkeypatch.setenv("TZ", "JST-9")
    time.tzset()
    try:
        assert explained(pod("p", 4, "a", 0), node())["boundAt"] == "2026-09-21T14:13:20Z"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_pod_without_card_memory_has_rules_alone() -> None:
    """No card is shown for it."""
    answer = explained(pod(units=0, nodeSelector={"a": "b"}), node())

    assert (answer["nodes"], answer["nodesLeftOut"]) == ([], 0)
    assert [cause["kind"] for cause in answer["causes"]] == ["node-selector"]


def test_a_pod_of_another_extender() -> None:
    """An annotation that names no binder is another's; a time that is none is left out."""
    one = pod("p", 4, "a", 0)
    annotations = one["metadata"]["annotations"]
    del annotations["ALIYUN_COM_GPU_MEM_EXTENDER"]
    annotations["ALIYUN_COM_GPU_MEM_ASSUME_TIME"] = "9" * 19
    never = explained(one, node())
    annotations["ALIYUN_COM_GPU_MEM_ASSUME_TIME"] = "0"

    assert (never["boundBy"], never["boundAt"]) == ("another extender", "2286-11-20T17:46:39Z")
    assert explained(one, node())["boundAt"] == ""


def test_a_bound_pod_without_card_memory() -> None:
    """It has no card."""
    assert explained(pod("p", 0, "a"), node())["cards"] == []
    asked = pod("p", 0, "a")
    compared = cluster(node(), asked, policy="fragmentation")
    assert explain_pod(subject(asked), compared, ())["cards"] == []


def test_events_of_interest_come_newest_first() -> None:
    """Ours and the scheduler's."""
    events = [
        event("FailedScheduling", "old", when="2026-01-01T00:00:00Z"),
        event("Pulled", "image", when="2026-01-03T00:00:00Z"),
        event("GPUShareHeld", "new", when="2026-01-02T00:00:00.5Z"),
        event("GPUShareHeld", "unknown"),
    ]
    answer = explain_pod(subject(pod()), cluster(node()), events)

    assert [one["message"] for one in answer["events"]] == ["new", "old", "unknown"]


def test_events_of_an_earlier_pod_are_not_shown() -> None:
    """A pod of the same name had another uid; an event without one counts."""
    events = [event("GPUShareHeld", text) for text in ("uid-p", "uid-gone", "")]
    for one in events:
        one.involved_object.uid = one.message
    answer = explain_pod(subject(pod()), cluster(node()), events)

    assert [one["message"] for one in answer["events"]] == ["uid-p", ""]


def test_the_schedulers_word_and_the_nominated_node() -> None:
    """Both are as the pod's status has them."""
    one = pod(schedulerName="mine")
    one["status"]["nominatedNodeName"] = "a"
    bare = pod()
    del bare["status"]

    assert explained(one, node())["scheduler"] == {
        "name": "mine", "reason": "Unschedulable", "message": "0/9 nodes are available", "nominatedNode": "a",
    }  # fmt: skip
    assert explained(bare, node())["scheduler"]["nominatedNode"] == ""
