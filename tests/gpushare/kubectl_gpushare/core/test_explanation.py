"""Promises of the documents of ``explain`` and ``events``, and about the program that bound a pod."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from gpushare.extender.core.explain import MOST_NODES
from gpushare.kubectl_gpushare.core.answer_text import events_names, events_text, with_ages
from gpushare.kubectl_gpushare.core.explanation import binder_of, event_list, explain_pod
from gpushare.kubectl_gpushare.core.scheduler_objects import Event, Series
from gpushare.model.allocation import read_allocation
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


def test_our_events_come_in_their_order() -> None:
    """Those of others are left out."""
    events = [
        event("GPUShareNoCard", "second", "b", when="2026-01-02T00:00:00Z"),
        event("Pulled", "image", "b"),
        event("GPUShareHeld", "first", "a", when="2026-01-01T00:00:00Z"),
        event("GPUShareHeld", "no time", "b"),
    ]
    answer = event_list(events, ["x"])
    lines = events_text(answer).splitlines()

    assert [line.split()[0] for line in lines] == ["LAST", "-", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"]
    assert lines[2].split()[1:] == ["team", "pod/a", "GPUShareHeld", "1", "first"]
    bare = events_text(answer, headers=False).splitlines()
    assert [line.split() for line in bare] == [line.split() for line in lines[1:]]
    assert events_names(answer) == "pod/b\npod/a\n"
    aged = events_text(with_ages(answer, 1_767_312_312.0), headers=False).splitlines()
    assert [line.split()[0] for line in aged] == ["<unknown>", "24h", "5m12s"]
    assert with_ages({"events": []}, 0.0) == {"events": []}
    assert answer["hidden"] == ["x"]


def test_a_series_of_events_has_its_own_count_and_time() -> None:
    """So the API group events.k8s.io writes an event that happens again; its times have fractions of a second."""
    again = event("GPUShareHeld", "later")
    again.series = Series(3, "2026-01-01T00:00:00.5Z")
    answer = event_list([again, event("GPUShareHeld", "earlier", when="2026-01-01T00:00:00Z")], ())

    assert [(one["message"], one["count"]) for one in answer["events"]] == [("earlier", 1), ("later", 3)]


def test_what_an_event_lacks_is_a_dash() -> None:
    """A document of events has an empty text, and a count of one, for what is not there."""
    answer = event_list(
        [msgspec.convert({"involvedObject": {"kind": "Node", "name": "n"}, "reason": "GPUShareX"}, Event)], ()
    )

    assert answer == {
        "apiVersion": "kubectl.gpushare.aliyun.com/v1",
        "kind": "EventList",
        "events": [
            {
                "when": "", "type": "", "reason": "GPUShareX", "object": "node/n", "namespace": "", "count": 1, "message": "",
            }
        ],
        "hidden": [],
    }  # fmt: skip
    assert events_text(answer) == (
        "LAST SEEN   NAMESPACE   OBJECT   REASON      COUNT   MESSAGE\n-           -           node/n   GPUShareX   1\n"
    )
    warning = msgspec.structs.replace(event("GPUShareHeld", "x"), type="Warning")
    assert event_list([warning], ())["events"][0]["type"] == "Warning"


BORN, CHOSEN, LATER = "2026-09-21T14:13:19Z", "2026-09-21T14:13:20Z", "2026-09-21T14:13:20.5Z"
PULLED = {"reason": "Pulled", "lastTimestamp": LATER}


def scheduled(at: str | None, by: str) -> Object:
    """The event of a scheduler that has bound the pod."""
    return {"reason": "Scheduled", "eventTime": at, "reportingComponent": by}


def bound(at: str) -> list[Object]:
    """The pod's condition since it is bound."""
    return [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at}]


CASES: dict[str, tuple[Object, tuple[Object, ...], tuple[str, str, str]]] = {
    "extender": ({}, (scheduled(LATER, "default-scheduler"),), ("gpushare", "default-scheduler", "extender")),
    "extender, by the condition": ({"conditions": bound(CHOSEN)}, (), ("gpushare", "", "extender")),
    "no evidence": ({}, (), ("gpushare", "", "extender")),
    "no evidence, of another scheduler": ({"schedulerName": "mine"}, (), ("mine", "mine", "extender or device plugin")),
    "another scheduler, in the same second": (
        {"conditions": bound(CHOSEN), "schedulerName": "mine"}, (), ("mine", "mine", "extender or device plugin"),
    ),
    "another scheduler that asks the extender": (
        {"conditions": bound("2026-09-21T14:13:21Z"), "schedulerName": "mine"}, (), ("gpushare", "mine", "extender"),
    ),
    "another scheduler": ({}, (scheduled(BORN, "mine"),), ("mine", "mine", "device plugin")),
    "another scheduler, by the condition": (
        {"conditions": bound("2026-09-21T14:13:18Z"), "schedulerName": "mine"}, (), ("mine", "mine", "device plugin"),
    ),
    "another scheduler, no card": ({"card": None}, (scheduled(None, "mine"),), ("mine", "mine", "")),
    "a person": ({"whole": True}, (PULLED,), ("nodeName", "", "device plugin")),
    "a person, no card": ({"card": None, "whole": True}, (), ("nodeName", "", "")),
    "a scheduler that writes no events": (
        {"whole": True, "schedulerName": "mine"}, (), ("mine", "mine", "extender or device plugin"),
    ),
    "events that have expired": ({"card": None}, (PULLED,), ("", "", "")),
    "a static pod": ({"annotation": "kubernetes.io/config.mirror"}, (), ("static pod", "", "device plugin")),
    "copied": ({"born": "2026-09-22T00:00:00Z"}, (), ("", "", "copied annotations")),
    "another extender": ({"stranger": True}, (scheduled(LATER, "s"),), ("another extender", "s", "another extender")),
    "annotations that cannot be read": ({"index": "x"}, (), ("gpushare", "", "extender")),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_binder_of_a_pod(case: str) -> None:
    """By its events, its condition, and the time at which its card was chosen."""
    facts, events, expected = CASES[case]
    facts = dict(facts)
    are_whole = facts.pop("whole", False)
    asked = pod("p", 4, "a", facts.pop("card", 0), conditions=facts.pop("conditions", None))
    asked["metadata"]["creationTimestamp"] = facts.pop("born", BORN)
    annotations: dict[str, Any] = asked["metadata"]["annotations"]
    annotations |= {facts.pop("annotation"): "x"} if "annotation" in facts else {}
    annotations |= {"ALIYUN_COM_GPU_MEM_IDX": facts.pop("index")} if "index" in facts else {}
    if facts.pop("stranger", False):
        del annotations["ALIYUN_COM_GPU_MEM_EXTENDER"]
    asked["spec"] |= facts
    one = subject(asked)
    allocation, _ = read_allocation(one, one.metadata.annotations)
    found = binder_of(one, allocation, [msgspec.convert(event, Event) for event in events], are_whole=are_whole)

    assert (found["boundBy"], found["scheduler"], found["cardBy"]) == expected
