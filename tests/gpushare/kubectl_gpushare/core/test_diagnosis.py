"""Promises of ``doctor``: each fault has what to do, and a cluster that is well has none."""

from __future__ import annotations

import msgspec
import pytest

from gpushare.kubectl_gpushare.core.answer_text import diagnosis_text
from gpushare.kubectl_gpushare.core.diagnosis import diagnosis
from gpushare.manifests import ReportedNode
from gpushare.setup.core.faults import Fault
from tests.gpushare.kubectl_gpushare.small_cluster import node

LABEL = {"gpushare": "true"}
STALE = "node a: GPUShareHealthy is True, and its device plugin has not written it for half an hour"


def test_each_finding_has_its_advice() -> None:
    """Those of the objects first, then nodes whose plugin is silent, then those of cards and pods."""
    silent = msgspec.convert({"metadata": {"name": "s", "labels": LABEL}}, ReportedNode)
    answer = diagnosis([Fault("no extender", "install it")], ["node a: card 0 is over-booked"], [silent], 0.0, ["x"])

    assert [one["what"] for one in answer["findings"]] == [
        "no extender",
        "node s has the label gpushare=true and reports no aliyun.com/gpu-mem",
        "node a: card 0 is over-booked",
    ]
    assert diagnosis_text(answer).startswith("no extender\n  → install it\nnode s ")
    assert (answer["apiVersion"], answer["kind"]) == ("kubectl.gpushare.aliyun.com/v1", "Diagnosis")
    assert answer["findings"][1]["do"].startswith(
        "kubectl -n kube-system get pods -o wide --field-selector spec.nodeName=s, "
    )
    assert answer["findings"][-1]["do"] == "docs/troubleshooting.md has each event, reason and state"
    assert answer["hidden"] == ["x"]


def test_cards_that_a_node_does_not_offer_are_a_finding() -> None:
    """The kubelet offers none for minutes after the device plugin is gone. It offers none of sick cards either: no such finding."""
    there, sick = node(), node("s", 14, sick="lost")
    for one in (there, sick):
        one["status"]["allocatable"] = one["status"]["allocatable"] | {"aliyun.com/gpu-mem": "0"}
    nodes = [msgspec.convert(one, ReportedNode) for one in (there, sick, node("well"))]

    (found,) = diagnosis([], [], nodes, 0.0, [])["findings"]
    assert found["what"] == "node a has cards and offers none of them: its device plugin is away or waits"
    assert "spec.nodeName=a" in found["do"]


def test_a_cluster_that_is_well_has_no_finding() -> None:
    """A node without cards needs no label."""
    nodes = [msgspec.convert(one, ReportedNode) for one in (node(labels=LABEL), {"metadata": {"name": "cpu"}})]
    answer = diagnosis([], [], nodes, 0.0, [])

    assert answer["findings"] == []
    assert diagnosis_text(answer) == "good: nothing that can be seen is wrong\n"


@pytest.mark.parametrize(
    ("status", "heartbeat", "found"),
    [
        ("True", "1970-01-01T00:00:00Z", []),
        ("False", "1970-01-01T00:00:00Z", ["node a: GPUShareHealthy is False (CardsSick): card 0 is sick"]),
        ("Unknown", "1970-01-01T00:00:00Z", ["node a: GPUShareHealthy is Unknown (CardsSick): card 0 is sick"]),
        (
            "True",
            "1969-12-31T00:00:00Z",
            [STALE],
        ),
        ("True", None, [STALE]),
    ],
)
def test_condition_of_a_node_is_a_finding(status: str, heartbeat: str | None, found: list[str]) -> None:
    """One that is not True, or that its plugin has left behind."""
    condition = {"type": "GPUShareHealthy", "status": status, "reason": "CardsSick", "message": "card 0 is sick"}
    item = {"metadata": {"name": "a"}, "status": {"conditions": [condition | {"lastHeartbeatTime": heartbeat}]}}
    nodes = [msgspec.convert(one, ReportedNode) for one in ({"metadata": {"name": "without"}}, item)]
    findings = diagnosis([], [], nodes, 1800.0, [])["findings"]

    assert [one["what"] for one in findings] == found
    assert {one["do"] for one in findings} <= {"docs/troubleshooting.md has each event, reason and state"}


def test_overuse_on_a_node_is_a_finding() -> None:
    """With the command that names the pods."""
    item = {"metadata": {"name": "a", "annotations": {"aliyun.com/gpushare-overuse": '[["u",0,1,2],["v",0,1,2]]'}}}
    answer = diagnosis([], [], [msgspec.convert(item, ReportedNode)], 0.0, [])

    assert answer["findings"] == [
        {"what": "node a: 2 pods use more of a card than they booked", "do": "kubectl gpushare top pods -A names them"}
    ]
