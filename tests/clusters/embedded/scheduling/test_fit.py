"""Which nodes the embedded scheduler rejects, and with which text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.amounts import Amounts
from clusters.embedded.scheduling.cluster_view import node_info, on_node
from clusters.embedded.scheduling.fit import (
    EXTENDER,
    NODE_RESOURCES_FIT,
    Diagnosis,
    FitError,
    NoNodesError,
    Rejection,
    demand_of,
    reject,
    reject_with_nominated,
)
from tests.clusters.embedded.scheduling.scheduling_objects import MEMORY, make_node, make_pod

AWAY: dict[str, Any] = {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}


def rejection(
    pod: dict[str, Any],
    node: dict[str, Any],
    requested: Amounts | None = None,
    pod_count: int = 0,
    ignored: frozenset[str] = frozenset(),
) -> Rejection | None:
    info = node_info(node)
    for number in range(pod_count):
        info.add(on_node(make_pod(f"there-{number}"), "n1"))
    info.requested = requested or {}
    return reject(demand_of(pod, ignored), info)


@pytest.mark.parametrize(
    ("pod", "node", "plugin", "reasons"),
    [
        (make_pod(), make_node(unschedulable=True), "NodeUnschedulable", ["node(s) were unschedulable"]),
        (make_pod(), make_node(**AWAY), "TaintToleration", ["node(s) had untolerated taint(s)"]),
        (
            make_pod(nodeSelector={"gpushare": "true"}),
            make_node(),
            "NodeAffinity",
            ["node(s) didn't match Pod's node affinity/selector"],
        ),
        (make_pod(limits={MEMORY: "2"}), make_node(), "NodeResourcesFit", [f"Insufficient {MEMORY}"]),
        (
            make_pod(limits={"memory": "33Gi", MEMORY: "2", "cpu": "9"}),
            make_node(),
            "NodeResourcesFit",
            ["Insufficient cpu", "Insufficient memory", f"Insufficient {MEMORY}"],
        ),
        (make_pod(), make_node(allocatable={"pods": "0"}), "NodeResourcesFit", ["Too many pods"]),
    ],
)
def test_reject_says_why_as_kube_scheduler_does(
    pod: dict[str, Any], node: dict[str, Any], plugin: str, reasons: list[str]
) -> None:
    """Each filter gives its own text, and several resources are named together."""
    found = rejection(pod, node)

    assert found is not None
    assert (plugin, reasons) == (found.plugin, list(found.reasons))


def test_reject_names_the_first_filter_only() -> None:
    """A cordoned, tainted node without cards is *unschedulable*, nothing else."""
    found = rejection(make_pod(limits={MEMORY: "2"}), make_node(unschedulable=True, **AWAY))

    assert found is not None
    assert ("node(s) were unschedulable",) == found.reasons


def test_reject_lets_a_toleration_past_a_cordon() -> None:
    """DaemonSets run on cordoned nodes."""
    tolerations = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}]

    assert rejection(make_pod(tolerations=tolerations), make_node(unschedulable=True)) is None


@pytest.mark.parametrize(("wanted", "resolvable"), [("10", True), ("11", False)])
def test_reject_knows_what_eviction_could_cure(wanted: str, resolvable: bool) -> None:
    """A rejection is resolvable only if the pod would fit the empty node."""
    found = rejection(make_pod(limits={MEMORY: wanted}), make_node(allocatable={MEMORY: "10"}), {MEMORY: 1})

    assert found is not None
    assert resolvable is found.resolvable


def test_reject_counts_the_pods_of_a_node() -> None:
    """A node with as many pods as it may have takes no more."""
    node = make_node(allocatable={"pods": "3"})

    assert rejection(make_pod(), node, pod_count=2) is None
    assert rejection(make_pod(), node, pod_count=3) is not None


def test_reject_leaves_ignored_resources_to_the_extender() -> None:
    """A resource with `ignoredByScheduler` is not counted."""
    pod = make_pod(limits={MEMORY: "2"})

    assert rejection(pod, make_node(), ignored=frozenset({MEMORY})) is None


def test_reject_skips_resources_of_which_nothing_is_asked() -> None:
    """A resource of which the pod asks for none rejects no node, even an over-committed one."""
    assert rejection(make_pod(limits={MEMORY: "0"}), make_node(), {MEMORY: 5}) is None


@given(st.integers(0, 50), st.integers(0, 50), st.integers(1, 50))
def test_reject_never_over_commits_and_never_refuses_what_fits(total: int, used: int, wanted: int) -> None:
    """A pod fits exactly if the sum is at most the total."""
    found = rejection(
        make_pod(limits={MEMORY: str(wanted)}), make_node(allocatable={MEMORY: str(total)}), {MEMORY: used}
    )

    assert (used + wanted <= total) is (found is None)


@pytest.mark.parametrize(("priority", "fits"), [(0, False), (5, False), (6, True)])
def test_reject_with_nominated_yields_to_those_no_less_important(priority: int, fits: bool) -> None:
    """Room that is being made for a pod is taken, except for a more important pod."""
    info = node_info(make_node(allocatable={MEMORY: "10"}))
    nominated = [on_node(make_pod("first", {MEMORY: "8"}, priority=5), "n1")]
    pod = make_pod("p1", {MEMORY: "4"}, priority=priority)

    assert fits is (reject_with_nominated(demand_of(pod), info, nominated) is None)


def test_reject_with_nominated_does_not_count_the_pod_itself() -> None:
    """A pod that is nominated to the node does not stand in its own way."""
    info = node_info(make_node(allocatable={MEMORY: "10"}))
    pod = make_pod("p1", {MEMORY: "8"})

    assert reject_with_nominated(demand_of(pod), info, [on_node(pod, "n1")]) is None


def test_fit_error_counts_and_sorts_the_reasons() -> None:
    """Sorted as text, the number included, each node counted for each of its reasons; then the result of preemption."""
    short = Rejection(NODE_RESOURCES_FIT, ("Insufficient cpu", f"Insufficient {MEMORY}"), resolvable=True)
    no_card = Rejection(EXTENDER, ("Insufficient GPU Memory in one device",), resolvable=True)
    diagnosis = Diagnosis(4, {"a": short, "b": no_card, "c": short})

    expected = f"0/4 nodes are available: 1 Insufficient GPU Memory in one device, 2 Insufficient {MEMORY}, 2 Insufficient cpu."
    assert expected == str(FitError(diagnosis))
    assert f"{expected} preemption: none" == str(FitError(diagnosis, "preemption: none"))
    assert {NODE_RESOURCES_FIT, EXTENDER} == FitError(diagnosis, "preemption: none").rejectors


def test_fit_error_without_reasons_ends_after_the_count() -> None:
    """An extender that drops nodes without a reason still counts as the cause; a cluster without nodes has none."""
    error = FitError(Diagnosis(2, silent_rejectors={EXTENDER}))

    assert (str(error), error.rejectors) == ("0/2 nodes are available:", {EXTENDER})
    assert not NoNodesError().rejectors
