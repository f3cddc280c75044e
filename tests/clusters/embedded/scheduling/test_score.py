"""The scores that the embedded scheduler gives to nodes."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from clusters.embedded.scheduling.cluster_view import counted_of, node_info, on_node
from clusters.embedded.scheduling.score import least_allocated, pick_best, with_extenders
from tests.clusters.embedded.scheduling.scheduling_objects import make_node, make_pod

NODE = make_node(allocatable={"cpu": "10", "memory": "1000"})


def test_least_allocated_prefers_the_emptier_node() -> None:
    """The score is the free part, after the pod, in percent."""
    empty, half = node_info(NODE), node_info(NODE)
    half.add(on_node(make_pod(limits={"cpu": "5", "memory": "500"}), "n1"))

    assert least_allocated({"cpu": 1000, "memory": 100}, empty) == 90
    assert least_allocated({"cpu": 1000, "memory": 100}, half) == 40


def test_pods_that_ask_for_nothing_count_a_little() -> None:
    """Each container with a tenth of a cpu and 200 MiB, so that such pods spread."""
    assert counted_of(make_pod(limits={"cpu": "2"})) == {"cpu": 2000, "memory": 200 * 1024**2}


@given(st.integers(0, 10_000), st.integers(0, 20_000), st.integers(0, 20_000))
def test_least_allocated_stays_between_0_and_100(capacity: int, used: int, wanted: int) -> None:
    """The score stays between 0 and 100 on empty and on over-committed nodes."""
    info = node_info(make_node(allocatable={"cpu": f"{capacity}m", "memory": str(capacity)}))
    info.counted = {"cpu": used, "memory": used}

    assert 0 <= least_allocated({"cpu": wanted, "memory": wanted}, info) <= 100


def test_with_extenders_scales_ten_to_a_hundred_without_clamping() -> None:
    """An extender may give more than ten."""
    assert [with_extenders(50, score) for score in (10, 25)] == [150, 300]


def test_pick_best_breaks_ties_at_random_by_the_seed() -> None:
    """Ties are broken at random, and the same seed picks the same node."""
    scores = [("a", 5), ("b", 7), ("c", 7)]
    picks = [pick_best(scores, random.Random(seed)) for seed in range(20)]

    assert {"b", "c"} == set(picks)
    assert picks == [pick_best(scores, random.Random(seed)) for seed in range(20)]
