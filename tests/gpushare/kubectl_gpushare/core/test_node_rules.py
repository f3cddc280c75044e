"""Promises of the rules that kube-scheduler has beside the cards."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gpushare.kubectl_gpushare.core import node_rules
from gpushare.kubectl_gpushare.core.scheduler_objects import ScheduledNode
from gpushare.manifests import Pod
from tests.gpushare.kubectl_gpushare.small_cluster import node, pod, subject

LABELS = {"zone": "x", "size": "7", "word": "w"}
TAINT = {"key": "k", "value": "v", "effect": "NoExecute"}


def affine(*terms: dict[str, Any]) -> dict[str, Any]:
    """A pod's required node affinity."""
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def labelled(key: str, operator: str, *values: str) -> dict[str, Any]:
    """A term of one requirement."""
    return affine({"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]})


def against(spec: dict[str, Any], of_node: dict[str, Any] | None = None) -> str:
    """The rule that keeps a pod of this spec from a node."""
    one = msgspec.convert(node("a", labels=LABELS, spec=of_node), ScheduledNode)
    return node_rules.rule_against(one, subject(pod(**spec)))


@pytest.mark.parametrize(
    ("spec", "is_accepted"),
    [
        ({}, True),
        ({"nodeSelector": {"zone": "x"}}, True),
        ({"nodeSelector": {"zone": "y"}}, False),
        ({"affinity": {}}, True),
        ({"affinity": {"nodeAffinity": {}}}, True),
        (affine(), False),
        (affine({}), False),
        (affine({}, {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}), True),
        (affine({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}), False),
        (labelled("zone", "In", "x", "y"), True),
        (labelled("size", "Gt", "6"), True),
        (labelled("size", "Lt", "6"), False),
        (labelled("size", "Lt", "8"), True),
        (labelled("size", "Gt", "7"), False),
        (labelled("size", "Lt", "7"), False),
        (labelled("word", "Gt", "6"), False),
        (labelled("absent", "Lt", "6"), False),
        (labelled("size", "Gt"), False),
        (labelled("size", "Strange", "7"), False),
    ],
)
def test_a_node_is_accepted_by_its_labels(spec: dict[str, Any], is_accepted: bool) -> None:
    """As kube-scheduler compares them."""
    assert against(spec) == ("" if is_accepted else node_rules.NOT_SELECTED)


@pytest.mark.parametrize(
    ("taint", "toleration", "is_tolerated"),
    [
        ({}, {"operator": "Exists"}, True),
        ({}, {"key": "k", "operator": "Exists", "effect": "NoExecute"}, True),
        ({}, {"key": "k", "value": "v"}, True),
        ({}, {"key": "k", "value": "w"}, False),
        ({}, {"key": "j", "operator": "Exists"}, False),
        ({}, {"key": "k", "operator": "Exists", "effect": "NoSchedule"}, False),
        ({"value": None}, {"key": "k"}, True),
        ({"value": None}, {"key": "j"}, False),
        ({"effect": "PreferNoSchedule"}, {"key": "j"}, True),
    ],
)
def test_a_taint_is_tolerated(taint: dict[str, Any], toleration: dict[str, Any], is_tolerated: bool) -> None:
    """An empty key or effect is every one, and no value the empty one; a preference keeps no pod away."""
    one = TAINT | taint
    expected = "" if is_tolerated else f"node(s) had untolerated taint {{k: {one['value'] or ''}}}"

    assert against({"tolerations": [toleration]}, {"taints": [one]}) == expected


def test_a_cordoned_or_another_node_is_excluded() -> None:
    """A pod of a DaemonSet tolerates the first; the name in the spec decides."""
    bears = {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]}

    assert against({}, {"unschedulable": True}) == node_rules.CORDONED
    assert against(bears, {"unschedulable": True}) == ""
    assert (against({"nodeName": "a"}), against({"nodeName": "b"})) == ("", node_rules.OTHER_NODE)


def test_what_is_short_is_named_as_kube_scheduler_does() -> None:
    """Pods first, then cpu, memory, then other resources by name; what no node has is short too."""
    free = {"pods": 0, "cpu": 1, "z/z": 5}
    wanted = {"z/z": 6, "a/a": 1, "memory": 1, "cpu": 2, "pods": 1}

    assert node_rules.short_of(free, wanted) == (
        "Too many pods, Insufficient cpu, Insufficient memory, Insufficient a/a, Insufficient z/z"
    )
    assert node_rules.short_of(wanted, wanted) == ""


def test_amounts_that_cannot_be_read_are_none() -> None:
    """Neither of a pod nor of a node."""
    odd = msgspec.convert(pod(units="1.5", limits={"cpu": "x"}), Pod)
    one = msgspec.convert(node("a", amounts={"cpu": "x"}), ScheduledNode)

    assert node_rules.amounts_of(odd) == {"pods": 1000}
    assert node_rules.allocatable_of(one)["cpu"] == 0
    assert node_rules.allocatable_of(ScheduledNode()) == {}


def test_rules_that_are_not_judged_are_named() -> None:
    """Nothing here knows of neighbours, volumes and ports."""
    full: dict[str, Any] = {
        "affinity": {"podAffinity": {}, "podAntiAffinity": {}},
        "topologySpreadConstraints": [{}],
        "volumes": [{"persistentVolumeClaim": {}}],
        "containers": [{"ports": [{"hostPort": 80}]}],
    }

    assert node_rules.not_judged(subject(pod(**full))) == [
        "pod affinity", "pod anti-affinity", "topology spread", "volumes", "ports of the host",
    ]  # fmt: skip
    assert node_rules.not_judged(subject(pod())) == []


def test_requests_of_the_pod_itself_count_instead_of_the_sum() -> None:
    """A limit is a request if there is none, and the overhead of a runtime class comes on top."""
    whole = pod(resources={"limits": {"cpu": "3", "memory": "2"}, "requests": {"cpu": "2"}}, overhead={"cpu": "500m"})
    whole["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1", "memory": "1"}
    amounts = node_rules.amounts_of(msgspec.convert(whole, Pod))

    assert amounts == {"pods": 1000, "aliyun.com/gpu-mem": 4000, "cpu": 2500, "memory": 2000}
