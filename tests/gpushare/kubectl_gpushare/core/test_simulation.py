"""Promises of ``simulate``: what it foretells is what filter and bind do, in whatever order nodes are chosen."""

from __future__ import annotations

from typing import Any

import pytest

from gpushare.extender.core.page_document import Rows
from gpushare.kubectl_gpushare.core.explanation import explain_pod
from gpushare.kubectl_gpushare.core.simulation import simulate
from tests.gpushare.kubectl_gpushare.small_cluster import (
    Object,
    cluster,
    node,
    of_the_original,
    offering,
    pod,
    report,
    subject,
    workload,
)

LARGE = 40


def simulated(asked: Object, *objects: Object, replicas: int = 1, policy: str = "binpack") -> dict[str, Any]:
    """The answer about this many such pods."""
    return simulate(workload(replicas), subject(asked), cluster(*objects, policy=policy))


def places(answer: dict[str, Any]) -> list[tuple[str, list[int], int]]:
    """Node, cards and number of pods of each place."""
    return [(one["node"], [card["id"] for card in one["cards"]], one["pods"]) for one in answer["placements"]]


A100 = {"card-model": "A100"}


@pytest.mark.parametrize(
    ("asked", "objects", "fits"),
    [
        (pod(), (node("a", 14, 15), node("b", 3)), 6),
        (pod(), (node("a", 14, 14, unhealthy="lost"),), 3),
        (
            pod(wishes=A100),
            (node("c", model="A100", spec={"unschedulable": True}), node("a"), node("b", 8, 9, model="A100")),
            4,
        ),
        (pod(wishes={"split": "2,2"}), (node("a", 5, 4, 3), node("b", 9)), 2),
        (
            pod(wishes={"split": "2,2"}, limits={"cpu": "4"}),
            (node("a", 9, 9), node("b", 9, 9, amounts={"cpu": "4"})),
            3,
        ),
        (pod(units=8, wishes={"split": "whole"}), (node("a", 8, 9, 8, 4), pod("f", 1, "a", 2)), 1),
        (pod(limits={"cpu": "1"}), (node("a", 14, 14, amounts={"cpu": "5"}), node("b", 4, 4, amounts={"cpu": "1"})), 6),
        # kube-scheduler counts what a card is over-booked by, and pods on no card.
        (pod(), (node(), pod("f", 20, "a", 0)), 2),
        (pod(), (node(), pod("f", 13, "a", 9)), 3),
    ],
)
@pytest.mark.parametrize("policy", ["binpack", "spread", "fragmentation"])
def test_as_many_fit_as_the_nodes_hold(asked: Object, objects: tuple[Object, ...], fits: int, policy: str) -> None:
    """Whatever the policy is; one more has no room. On random clusters e2e/explain compares with what is bound."""
    answer = simulated(asked, *objects, replicas=LARGE, policy=policy)

    assert (answer["fits"], answer["placed"], sum(one["fits"] for one in answer["models"])) == (fits, fits, fits)
    assert answer["causes"]


def test_pods_land_where_the_policy_likes_them() -> None:
    """Binpack fills what is in use, and spread does not."""
    objects = (node("a"), node("b"), pod("f", 6, "b", 1))

    assert places(simulated(pod(), *objects)) == [("b", [1], 1)]
    assert places(simulated(pod(), *objects, policy="spread")) == [("a", [0], 1)]
    assert places(simulated(pod(), *objects, replicas=4)) == [("b", [1], 2), ("b", [0], 2)]


def test_pods_of_a_group_follow_the_first() -> None:
    """One card is the limit, be the first there or not."""
    asked = pod(wishes={"same-card": "g"})
    free = simulated(asked, node(), replicas=5)
    taken = simulated(asked, node(), pod("f", 9, "a", 0, wishes={"same-card": "g"}), replicas=5)
    nowhere = simulated(asked, node("a", 3))

    beside = simulated(asked, node("a"), node("b"), pod("f", 6, "a", 0), replicas=5)
    assert (beside["fits"], beside["placed"], places(beside)) == (2, 2, [("a", [0], 2)])
    assert (free["fits"], free["placed"], places(free)) == (3, 3, [("a", [0], 3)])
    assert (taken["fits"], taken["placed"]) == (1, 1)
    assert (nowhere["fits"], nowhere["placed"]) == (0, 0)


def test_slots_limit_a_card() -> None:
    """As many containers as it has slots; a pod that names none has no room at all."""
    slot = {"aliyun.com/gpu-slot": "1"}
    objects = (node("a", 15_000, 15_000, slots=3),)
    with_slots, without = simulated(pod(limits=slot), *objects, replicas=9), simulated(pod(), *objects)

    assert (with_slots["fits"], with_slots["placed"]) == (6, 6)
    assert (without["placed"], without["models"][0]["largest"]) == (0, 0)
    assert [cause["kind"] for cause in without["causes"]] == ["slot-missing"]
    assert (without["causes"][0]["nodes"], "causes" in simulated(pod(limits=slot), *objects)) == (1, False)
    assert with_slots["models"][0]["largest"] == 15_000

    two = pod(limits=slot)
    two["spec"]["containers"] *= 2
    many = node("a", 15_000, 15_000, slots=3, amounts={"aliyun.com/gpu-slot": "99"})
    for one, fits in ((pod(limits=slot), 6), (two, 2)):
        answer = simulated(one, many, replicas=9)
        assert (repr(answer["fits"]), answer["placed"]) == (str(fits), fits)
    assert simulated(pod(limits=slot), node("a", 15_000, slots=1))["models"][0]["largest"] == 15_000


def test_a_split_counts_under_its_first_card() -> None:
    """A node may have cards of two models."""
    mixed = node("a", 8, 4)
    annotations = mixed["metadata"]["annotations"]
    first, last = annotations["aliyun.com/gpushare-cards"].rsplit("Tesla T4", 1)
    annotations["aliyun.com/gpushare-cards"] = f"{first}A10{last}"
    answer = simulated(pod(units=12, wishes={"split": "8,4"}), mixed)

    assert [(one["model"], one["fits"]) for one in answer["models"]] == [("A10", 0), ("Tesla T4", 1)]


def test_a_pod_without_card_memory_is_placed_by_rules() -> None:
    """How many fit is what kube-scheduler counts."""
    answer = simulated(pod(units=0, limits={"cpu": "3"}), node("a"), node("b"), replicas=9)

    assert (answer["fits"], answer["placed"]) == (4, 4)


def test_a_daemon_has_a_pod_on_each_of_its_nodes() -> None:
    """Nodes that a rule excludes have none; one without room, or without cards, is a cause."""
    bare = of_the_original(node("plain"))
    bare["status"] = {"allocatable": {"cpu": "8", "pods": "110"}}
    objects = (node("a"), node("b", 3), node("c", spec={"unschedulable": True}), node("d"), bare)
    answer = simulate(workload(0, on_each_node=True), subject(pod()), cluster(*objects), ["d"])

    assert (answer["placed"], answer["replicas"], answer["fits"]) == (1, 3, 1)
    assert (places(answer), answer["note"]) == ([("a", [0], 1)], "already bound: 1 of its pods")
    assert [(one["kind"], one["message"], one["nodes"]) for one in answer["causes"]] == [
        ("too-small", "no GPU of the node is large enough", 1), ("resources", "Insufficient aliyun.com/gpu-mem", 1),
    ]  # fmt: skip


def test_pods_that_are_bound_already_are_not_placed_again() -> None:
    """The rest of the object's pods is; a pod that has ended is none of them."""
    owned, ended = pod("f", 9, "a", 0), pod("e", 9, "a")
    for one in (owned, ended):
        one["metadata"]["ownerReferences"] = [{"uid": "rs", "controller": True}, {"uid": "other"}]
    ended["status"]["phase"] = "Succeeded"
    state = cluster(node("a"), owned, ended)
    answer = simulate(workload(2), subject(pod(units=9)), state, state.nodes_of["rs"])

    assert (dict(state.nodes_of), answer["placed"], answer["replicas"]) == ({"rs": ["a"]}, 1, 1)


def test_models_are_shown_by_their_unit() -> None:
    """Amounts of two units are not compared; a node that names none has an empty one."""
    found = simulated(pod(), node("a"), node("s", 15_000, slots=3), of_the_original(node("p", 14)))["models"]

    assert [(one["model"], one["unit"], one["largest"]) for one in found] == [
        ("", "", 14), ("Tesla T4", "MiB", 0), ("Tesla T4", "GiB", 14),
    ]  # fmt: skip


def test_fragmentation_counts_the_cpu_of_every_pod() -> None:
    """Pods without cards too, because their CPU is gone."""
    other, asked = pod("o", 0, "a"), pod()
    for one in (other, asked):
        one["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "2"}
    state = cluster(node(), other, pod("f", 4, "a", 0), policy="fragmentation")

    assert state.book.snapshot().free_cpu["a"] == 6000
    assert state.book.snapshot().forecast() is not None
    question = state.question_of(subject(asked))
    assert question.cpu_milli == 2000
    state.assume("a", subject(asked), question.request, ((0, 4),))
    assert state.book.snapshot().free_cpu["a"] == 4000
    assert "a" not in cluster(node(), other).book.snapshot().free_cpu


def test_what_a_bound_pod_takes_of_its_node() -> None:
    """One whose amount cannot be read is in the book with the problem, and takes no room.

    One that has ended takes no CPU, as kube-scheduler counts, and keeps its card while its status shows a running container.
    """
    state = cluster(node(), pod("odd", "1.5", "a", 0), pod("f", 1, "a", 0))
    ended = pod("e", 14, "a", 0, limits={"cpu": "8"})
    ended["status"] = {"phase": "Failed", "containerStatuses": [{"name": "c", "state": {"running": {}}}]}
    after = cluster(node("a", 14), ended)

    assert "1.5" in state.problems["uid-odd"]
    assert state.book.snapshot().nodes["a"].used == 1
    assert (after.free_on("a")["cpu"], after.book.snapshot().nodes["a"].largest_free) == (8000, 0)


REFUSED = report("0/1 nodes are available: 1 Insufficient aliyun.com/gpu-mem.")


@pytest.mark.parametrize(
    ("objects", "largest"),
    [
        ((node(unhealthy="lost"), pod("f", 12, "a", 1)), 14),
        ((offering(of_the_original(node()), mem=14), pod("f", 12, "a", 0)), 2),
        ((offering(of_the_original(node()), mem=14), pod("f", 14, "a", 0)), 0),
        ((offering(of_the_original(node()), mem=28), pod("f", 12, "a", 0)), 14),
        ((node(), pod("f", 3, "a", 0), pod("g", 20, "a")), 5),
        ((node(), pod("f", 3, "a", 0), pod("g", 20, "a", 7)), 5),
    ],
)
def test_each_program_has_the_same_largest_pod(objects: tuple[Object, ...], largest: int) -> None:
    """The page and simulate name its size; explain has room for a pod of it and for no larger one."""
    rows = Rows()
    for _ in rows.follow(list(cluster(*objects).book.snapshot().nodes.values())):
        pass
    models = simulated(pod(), *objects)["models"]
    sizes = [size for size in (largest, largest + 1) if size]
    fits = [explain_pod(subject(pod(units=size, conditions=REFUSED)), cluster(*objects), ())["fits"] for size in sizes]

    assert rows.sums.largest == largest * 1024
    assert max(one["largest"] for one in models) == largest
    assert fits == [["a"], []][-len(sizes) :]
