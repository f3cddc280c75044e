"""Promises about the program that bound a pod: what the API shows, and no more."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gpushare.kubectl_gpushare.core.explanation import binder_of
from gpushare.kubectl_gpushare.core.scheduler_objects import Event
from gpushare.model.allocation import read_allocation
from tests.gpushare.kubectl_gpushare.small_cluster import Object, pod, subject

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
    allocation, _ = read_allocation(one.pod, one.pod.metadata.annotations)
    found = binder_of(one, allocation, [msgspec.convert(event, Event) for event in events], are_whole=are_whole)

    assert (found["boundBy"], found["scheduler"], found["cardBy"]) == expected
