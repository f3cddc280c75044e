from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from clusters.api_client import Object
from clusters.embedded.scheduling.node_state import node_info, on_node
from clusters.embedded.scheduling.score import balanced, in_tree, least_allocated, pick_best, with_extenders
from tests.clusters.embedded.scheduling.scheduling_objects import make_node, make_pod

NODE = make_node(allocatable={"cpu": "10", "memory": "1000"})


def asking(cpu: str, memory: str) -> Object:
    return make_pod(limits={"cpu": cpu, "memory": memory})


def test_least_allocated_prefers_the_emptier_node() -> None:
    """The score is the free part, after the pod, in percent."""
    empty, half = node_info(NODE), node_info(NODE)
    half.add(on_node(asking("5", "500"), "n1"))

    assert least_allocated({"cpu": 1000, "memory": 100}, empty) == 90
    assert least_allocated({"cpu": 1000, "memory": 100}, half) == 40


def test_least_allocated_counts_pods_that_ask_for_nothing() -> None:
    """Each container with a tenth of a cpu and 200 MiB."""
    empty, busy = node_info(make_node()), node_info(make_node())
    for number in range(8):
        busy.add(on_node(make_pod(f"p{number}"), "n1"))

    assert least_allocated({}, empty) > least_allocated({}, busy)


@given(st.integers(0, 10_000), st.integers(0, 20_000), st.integers(0, 20_000))
def test_least_allocated_stays_between_0_and_100(capacity: int, used: int, wanted: int) -> None:
    """Also on nodes that are empty or over-committed."""
    info = node_info(make_node(allocatable={"cpu": f"{capacity}m", "memory": str(capacity)}))
    info.counted = {"cpu": used, "memory": used}

    assert 0 <= least_allocated({"cpu": wanted, "memory": wanted}, info) <= 100


def test_balanced_prefers_the_node_that_becomes_more_even() -> None:
    """A pod without requests gets no such score."""
    lopsided, even = node_info(NODE), node_info(NODE)
    lopsided.add(on_node(asking("5", "1"), "n1"))

    assert balanced({"memory": 400}, lopsided) > 75 > balanced({"memory": 400}, even)
    assert balanced({}, lopsided) == 0


def test_in_tree_avoids_taints_and_follows_preferences() -> None:
    """The weights are kube-scheduler's."""
    plain = node_info(make_node("plain"))
    tainted = node_info(make_node("tainted", taints=[{"key": "k", "effect": "PreferNoSchedule"}]))
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["tainted"]}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}

    kept, away = in_tree(make_pod(), [plain, tainted])
    assert kept - away == 300
    drawn = in_tree(make_pod(affinity={"nodeAffinity": preferred}), [plain, tainted])
    assert drawn[0] - drawn[1] == 300 - 200


def test_with_extenders_scales_ten_to_a_hundred_without_clamping() -> None:
    """An extender may give more than ten."""
    assert with_extenders(50, 10) == 150
    assert with_extenders(50, 25) == 300


def test_pick_best_breaks_ties_at_random_by_the_seed() -> None:
    """The same seed picks the same node."""
    scores = [("a", 5), ("b", 7), ("c", 7)]
    picks = [pick_best(scores, random.Random(seed)) for seed in range(20)]

    assert {"b", "c"} == set(picks)
    assert picks == [pick_best(scores, random.Random(seed)) for seed in range(20)]
