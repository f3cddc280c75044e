from __future__ import annotations

from clusters.embedded.scheduling.fit import EXTENDER, NODE_AFFINITY, NODE_RESOURCES_FIT, Rejection
from clusters.embedded.scheduling.fit_error import Diagnosis, FitError, NoNodesError


def test_fit_error_counts_and_sorts_the_reasons() -> None:
    """Sorted as text, the number included, each node counted for each of its reasons."""
    short = Rejection(NODE_RESOURCES_FIT, ("Insufficient cpu", "Insufficient aliyun.com/gpu-mem"), resolvable=True)
    no_card = Rejection(EXTENDER, ("Insufficient GPU Memory in one device",), resolvable=True)
    error = FitError(Diagnosis(4, {"a": short, "b": no_card, "c": short}))

    expected = (
        "0/4 nodes are available: 1 Insufficient GPU Memory in one device, 2 Insufficient aliyun.com/gpu-mem, "
        "2 Insufficient cpu."
    )
    assert expected == str(error)
    assert {NODE_RESOURCES_FIT, EXTENDER} == error.rejectors


def test_fit_error_without_reasons_ends_after_the_count() -> None:
    """An extender that drops nodes without a reason still counts as the cause."""
    error = FitError(Diagnosis(2, silent_rejectors={EXTENDER}))

    assert str(error) == "0/2 nodes are available:"
    assert {EXTENDER} == error.rejectors


def test_fit_error_counts_nodes_outside_a_narrowed_search() -> None:
    """Nodes that were not looked at have the reason of what narrowed the search."""
    full = Rejection(NODE_RESOURCES_FIT, ("Too many pods",), resolvable=True)
    diagnosis = Diagnosis(
        3,
        {"a": full},
        absent_reason="node(s) didn't satisfy plugin(s) [NodeAffinity]",
        silent_rejectors={NODE_AFFINITY},
    )

    expected = "0/3 nodes are available: 1 Too many pods, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    assert expected == str(FitError(diagnosis))


def test_no_nodes_error_has_no_rejector() -> None:
    """The text is kube-scheduler's, and no filter refused."""
    assert str(NoNodesError()) == "no nodes available to schedule pods"
    assert not NoNodesError().rejectors


def test_fit_error_of_the_pod_itself_counts_no_nodes() -> None:
    """A fault of the pod stands in the place of the nodes' reasons."""
    error = FitError(Diagnosis(3, of_the_pod="pod affinity terms conflict"))

    assert str(error) == "0/3 nodes are available: pod affinity terms conflict."


def test_fit_error_with_preemption_says_what_came_of_it() -> None:
    """The message of the preemption follows, and the rejectors stay."""
    error = FitError(Diagnosis(2, silent_rejectors={EXTENDER}))

    assert str(error.with_preemption("preemption: none")) == "0/2 nodes are available: preemption: none"
    assert str(error.with_preemption("")) == "0/2 nodes are available:"
    assert {EXTENDER} == error.with_preemption("").rejectors
