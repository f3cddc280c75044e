from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from clusters.embedded.scheduling.node_state import node_info
from clusters.embedded.scheduling.score import least_allocated, pick_best, with_extenders
from tests.clusters.embedded.scheduling.objects import make_node


def test_least_allocated_prefers_the_emptier_node() -> None:
    node = make_node(allocatable={"cpu": "10", "memory": "1000"})
    empty, half = node_info(node), node_info(node)
    half.requested = {"cpu": 5000, "memory": 500}

    assert least_allocated({"cpu": 1000, "memory": 100}, empty) == 90
    assert least_allocated({"cpu": 1000, "memory": 100}, half) == 40


@given(st.integers(0, 10_000), st.integers(0, 20_000), st.integers(0, 20_000))
def test_least_allocated_stays_between_0_and_100(capacity: int, used: int, wanted: int) -> None:
    info = node_info(make_node(allocatable={"cpu": f"{capacity}m", "memory": str(capacity)}))
    info.requested = {"cpu": used, "memory": used}

    assert 0 <= least_allocated({"cpu": wanted, "memory": wanted}, info) <= 100


def test_with_extenders_scales_ten_to_a_hundred_and_clamps_nothing() -> None:
    assert with_extenders(50, 10) == 150
    assert with_extenders(50, 25) == 300


def test_pick_best_breaks_ties_at_random_by_the_seed() -> None:
    scores = [("a", 5), ("b", 7), ("c", 7)]
    picks = [pick_best(scores, random.Random(seed)) for seed in range(20)]

    assert {"b", "c"} == set(picks)
    assert picks == [pick_best(scores, random.Random(seed)) for seed in range(20)]
