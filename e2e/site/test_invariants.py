"""Each invariant of an existing cluster finds what breaks it, and nothing on a cluster that is well."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from e2e import spec
from e2e.builders import gpu_pod
from e2e.site.findings import Finding, Reported
from e2e.site.invariants import judge
from e2e.site.picture import Picture


def node(**changes: Any) -> dict[str, Any]:
    """A node in ids mode with healthy cards; ``changes`` to its status.capacity or, by ``annotation``, to its description."""
    units = (14, 10)
    annotation = changes.pop("annotation", {})
    cards = [
        {"index": i, "uuid": f"GPU-{i}", "model": "T", "mib": size * 1024, "units": size, "slots": 0, "healthy": True}
        for i, size in enumerate(units)
    ]
    for index, change in changes.pop("cards", {}).items():
        cards[index] |= change
    described = {"v": 1, "mode": "ids", "unit": "GiB", "boot": "b", "cards": cards} | annotation
    capacity = {spec.RESOURCE_MEMORY: str(sum(units)), spec.RESOURCE_COUNT: str(len(units))} | changes
    return {
        "metadata": {
            "name": "n",
            "labels": {"gpushare": "true"},
            "annotations": {spec.NODE_CARDS: json.dumps(described)},
        },
        "status": {"capacity": capacity},
    }


def pod(name: str, units: int | str, card: int | None = 0, *, more: Mapping[str, str] = {}) -> dict[str, Any]:
    """A pod that an extender bound to node n, which runs."""
    made = gpu_pod(name, units, bound_to="n")
    named = {} if card is None else {spec.POD_INDEX: str(card), spec.POD_UNITS: str(units), spec.POD_ASSIGNED: "true"}
    made["metadata"] |= {"namespace": "default", "annotations": {**named, **more}}
    made["status"] = {"phase": "Running"}
    return made


def unbound(made: dict[str, Any]) -> dict[str, Any]:
    """The same pod before its binding, at which a scheduler has looked."""
    del made["spec"]["nodeName"]
    made["status"]["phase"] = "Pending"
    return made


def written_by(
    made: dict[str, Any], manager: str, *, creates: bool = False, names_node: bool = False
) -> dict[str, Any]:
    """The same pod, with what its API server notes of the writer of its card's index."""
    fields: dict[str, Any] = {"f:metadata": {"f:annotations": {f"f:{spec.POD_INDEX}": {}}}}
    if creates:
        fields["f:spec"] = {"f:containers": {}}
    if names_node:
        fields = {"f:spec": {"f:containers": {}, "f:nodeName": {}}}
    made["metadata"]["managedFields"] = [{"manager": manager, "operation": "Update", "fieldsV1": fields}]
    return made


def found(*pods: dict[str, Any], nodes: tuple[dict[str, Any], ...] = ()) -> list[tuple[str, str]]:
    """The rule and the object of each finding."""
    return [finding.key for finding in judge(Picture(nodes or (node(),), pods))]


def test_an_odd_node_is_a_finding_of_each_rule_that_it_ends() -> None:
    """The rules judge the other nodes, and the pod that has no form at all is one, too."""
    odd = {"metadata": {"name": "odd", "labels": {"gpushare": "true"}, "annotations": "none"}}
    pods = (pod("a", 8), pod("b", 7), {"metadata": None})
    findings = judge(Picture((node(), odd), pods))
    unseen = [one for one in findings if "not judged" in one.text]

    assert {("capacity", "node odd"), ("over-booked cards", "node odd")} <= {one.key for one in unseen}
    assert {one.subject for one in unseen} == {"node odd", "pod "}
    assert {one.severity for one in unseen} == {"warning"}
    assert [one.key for one in findings if one not in unseen] == [("over-booked", "node n card 0")]


def test_a_busy_cluster_that_is_well_has_no_findings() -> None:
    """Full cards, waiting pods, ended pods, several cards for one pod, and strangers' pods."""
    several = pod("several", 8, None, more={spec.POD_ALLOCATION: '{"c0": {"0": 3, "1": 5}}', spec.POD_ASSIGNED: "true"})
    ended = pod("ended", 14)
    ended["status"]["phase"] = "Succeeded"
    stranger = {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "x"}]}, "status": {}}
    waits = unbound(pod("waits", 14, None))
    assert found(pod("a", 8), pod("b", 3), several, ended, waits, stranger) == []


def undescribed(**changes: Any) -> dict[str, Any]:
    """A node of the original's plugin, which writes no annotation."""
    plain = node(**changes)
    plain["metadata"]["annotations"] = {}
    return plain


_LARGE = node(cards={0: {"units": 2000}, 1: {"units": 1024}}, **{spec.RESOURCE_MEMORY: "3024"})
# As the API server writes 2000 and 1024.
_LARGE_PODS = (pod("a", "2k", more={spec.POD_UNITS: "2000"}), pod("b", "1Ki", 1, more={spec.POD_UNITS: "1024"}))


@pytest.mark.parametrize(
    ("changed", "pods", "expected"),
    [
        (node(annotation={"v": 2}), (), "cards-annotation of node n"),
        (node(annotation={"cards": [{}]}), (), "cards-annotation of node n"),
        (node(annotation={"cards": None}), (), "cards-annotation of node n"),
        (node(**{spec.RESOURCE_MEMORY: "23"}), (), "capacity of node n"),
        (node(**{spec.RESOURCE_MEMORY: "many"}), (pod("a", 12),), "capacity of node n"),
        (undescribed(**{spec.RESOURCE_MEMORY: "many"}), (pod("a", 12),), "capacity of node n"),
        (node(**{spec.RESOURCE_COUNT: "1"}), (), "capacity of node n"),
        (node(**{spec.RESOURCE_COUNT: "1.5"}), (), "capacity of node n"),
        (node(**{spec.RESOURCE_MEMORY: "0"}), (), "stale-annotation of node n"),
        (node(annotation={"mode": "slots"}), (), "stale-annotation of node n"),
        (node(), (pod("a", 8), pod("b", 7), pod("c", 10, 1)), "over-booked of node n card 0"),
        # Without an annotation each card has the total divided by the count.
        (undescribed(), (pod("a", 12), pod("b", 12, 1)), ""),
        (undescribed(), (pod("a", 12), pod("b", 1)), "over-booked of node n card 0"),
        (_LARGE, _LARGE_PODS, ""),
        (_LARGE, (*_LARGE_PODS, pod("c", 1, 1)), "over-booked of node n card 1"),
    ],
)
def test_a_fault_of_a_node_is_one_finding(changed: dict[str, Any], pods: tuple[Any, ...], expected: str) -> None:
    """By the cards that it describes, or by its amounts alone."""
    assert ", ".join(map(" of ".join, found(*pods, nodes=(changed,)))) == expected


def test_a_finding_names_the_pods_with_their_amounts() -> None:
    """Those that book a card beyond its memory, and those on a card that is unhealthy."""
    (over,) = judge(Picture((node(),), (pod("a", 8), pod("b", 7), pod("c", 10, 1))))
    assert "15 units, it has 14: default/a 8, default/b 7" in over.text
    failed = node(cards={1: {"healthy": False, "reason": "Xid 79"}})
    (unhealthy,) = judge(Picture((failed,), (pod("a", 3, 1),)))
    assert unhealthy.key == ("unhealthy-card", "node n card 1")
    assert unhealthy.text.endswith("Xid 79; on it: default/a")


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        ({spec.POD_INDEX: "7"}, "card 7"),
        ({spec.POD_INDEX: "first"}, "cannot be read"),
        ({spec.POD_UNITS: "4"}, "it asks for 3"),
        ({spec.POD_ASSIGNED: "yes"}, "neither true nor false"),
        ({spec.POD_ASSUME_TIME: "soon"}, "no time"),
        ({spec.POD_ALLOCATION: '{"c0": {"0": 2}}'}, "have 2 units"),
        ({spec.POD_ALLOCATION: "[" * 5000}, "cannot be read"),
        ({spec.POD_ALLOCATION: "[]"}, "cannot be read"),
    ],
)
def test_annotations_of_a_bound_pod_that_are_wrong(annotations: dict[str, str], words: str) -> None:
    """A pod has one finding, with all that is wrong of it."""
    findings = judge(Picture((node(),), (pod("a", 3, more=annotations),)))
    assert [finding.key for finding in findings] == [("pod-annotations", "pod default/a")]
    assert words in findings[0].text


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (unbound(pod("a", 3)), [("forged-annotation", "pod default/a")]),
        (written_by(pod("a", 3), "kubectl-annotate"), [("forged-annotation", "pod default/a")]),
        (written_by(pod("a", 3), "kube-controller-manager", creates=True), [("forged-annotation", "pod default/a")]),
        (written_by(pod("a", 3), "gpushare-device-plugin-v2"), []),
        (pod("a", 3), []),
    ],
    ids=["not bound yet", "changed by hand", "in the template", "by a program of ours", "by a Binding"],
)
def test_a_forged_annotation_is_found(made: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    """An annotation that kubectl or the pod's creator wrote: the API server notes the writer of each field."""
    assert found(made) == expected


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (pod("a", 3, None), "no card was chosen"),
        (pod("a", 3, more={"kubernetes.io/config.mirror": "x"}), "a static pod"),
        (written_by(pod("a", 3), "kubectl-create", names_node=True), "nodeName): the device plugin chose its card"),
    ],
)
def test_a_pod_past_the_extender_is_found(made: dict[str, Any], words: str) -> None:
    """By the card that it lacks, or by the road that it came."""
    (finding,) = judge(Picture((node(),), (made,)))
    assert finding.key == ("bypassed", "pod default/a")
    assert words in finding.text


def test_a_finding_of_one_look_is_not_reported() -> None:
    """Two looks in a row have it; it is reported once, and once when it is gone, and stays in the result."""
    finding = Finding("error", "stuck", "pod a", "3 s", "wait")
    reported = Reported()
    assert reported.look([finding]) == ([], [])
    assert reported.look([]) == ([], [])
    assert reported.look([finding]) == ([], [])
    assert reported.look([finding]) == ([finding], [])
    assert reported.look([finding]) == ([], [])
    assert reported.look([]) == ([], [finding])
    assert list(reported.confirmed.values()) == [finding]
