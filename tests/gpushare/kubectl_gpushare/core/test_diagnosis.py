"""Promises of ``doctor``: each fault has what to do, and a cluster that is well has none."""

from __future__ import annotations

import msgspec

from gpushare.kubectl_gpushare.core.answer_text import diagnosis_text
from gpushare.kubectl_gpushare.core.diagnosis import diagnosis
from gpushare.manifests import Node
from gpushare.setup.core.faults import Fault
from tests.gpushare.kubectl_gpushare.small_cluster import node

LABEL = {"gpushare": "true"}


def test_each_finding_has_its_advice() -> None:
    """Those of the objects first, then nodes whose plugin is silent, then those of cards and pods."""
    silent = msgspec.convert({"metadata": {"name": "s", "labels": LABEL}}, Node)
    answer = diagnosis([Fault("no extender", "install it")], ["node a: card 0 is over-booked"], [silent], ["x"])

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


def test_a_cluster_that_is_well_has_no_finding() -> None:
    """A node without cards needs no label."""
    nodes = [msgspec.convert(one, Node) for one in (node(labels=LABEL), {"metadata": {"name": "cpu"}})]
    answer = diagnosis([], [], nodes, [])

    assert answer["findings"] == []
    assert diagnosis_text(answer) == "good: nothing that can be seen is wrong\n"
