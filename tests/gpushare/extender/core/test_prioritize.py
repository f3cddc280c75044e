"""Promises of gpushare.extender.core.prioritize."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare import wire
from gpushare.extender.core.prioritize import prioritize
from gpushare.model.forecast import Forecast, PodClass
from gpushare.model.node import Device, lay_out
from gpushare.model.placement import Question, Snapshot, question
from gpushare.model.pod import Request
from gpushare.model.wishes import Wishes

EMPTY = lay_out("empty", (Device(0, 16), Device(1, 16)), [])
HALF = lay_out("half", (Device(0, 16, 8), Device(1, 16)), [])
FULL = lay_out("full", (Device(0, 16, 12), Device(1, 16, 16)), [])
EXPECTED = Forecast({PodClass(8): 3, PodClass(4): 1})
CLUSTER = Snapshot({node.name: node for node in (EMPTY, HALF, FULL)}, lambda: EXPECTED)


def scores(policy: str, units: int = 4) -> dict[str, int]:
    """The scores of all nodes."""
    return prioritize(question(Request(units), CLUSTER, policy), list(CLUSTER.nodes), CLUSTER)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("binpack", {"empty": 2, "half": 6, "full": 10}),
        ("spread", {"empty": 8, "half": 7, "full": 0}),
        # Requests of 8 are usual: four units of the full node can hold none of them, elsewhere a block of 8 would be broken.
        ("fragmentation", {"empty": 0, "half": 0, "full": 10}),
    ],
)
def test_each_policy_likes_other_nodes(policy: str, expected: dict[str, int]) -> None:
    """Binpack and spread judge half by the node and half by the card, fragmentation by what becomes useless."""
    assert scores(policy) == expected


def test_an_over_booked_node_is_full_and_no_more() -> None:
    """A pod past the extender is on the other card."""
    node = lay_out("n", (Device(0, 16), Device(1, 16, 40)), [])

    assert prioritize(Question(Request(16)), ["n"], Snapshot({"n": node})) == {"n": 10}


def test_values_are_kept_for_the_next_question() -> None:
    """The values of known nodes are kept, and are not computed again."""
    known: dict[str, float] = {"half": 1}

    assert prioritize(Question(Request(4)), ["gone", "half", "full"], CLUSTER, known) == {
        "gone": 0,
        "half": 1,
        "full": 10,
    }
    assert known == {"half": 1, "full": 10}


def test_a_split_is_scored_by_all_its_cards() -> None:
    """The tightest that hold the parts: 29 of their 32 units are used with the pod, and of the node 29 of 48."""
    cards = (Device(0, 16, 8, uuid="a"), Device(1, 16, uuid="b"), Device(2, 16, 9, uuid="c"))
    asked = Question(Request(12, wishes=Wishes(split=(7, 5))))

    assert prioritize(asked, ["n"], Snapshot({"n": lay_out("n", cards, [])})) == {"n": 8}


def test_fragmentation_likes_where_cpu_is_not_stranded() -> None:
    """A pod without a card belongs on CPU that cards do not need; if CPU is not known all nodes score alike."""
    nodes = {name: lay_out(name, (Device(0, 16), Device(1, 16)), []) for name in "abc"}
    needy = Forecast({PodClass(8, cpu_milli=4000): 1})
    cpu = {"a": 16_000, "b": 32_000}
    snapshot = Snapshot(nodes, lambda: needy, cpu)

    assert prioritize(question(Request(0), snapshot, "fragmentation", 8000), ["a", "b"], snapshot) == {"a": 0, "b": 10}
    assert prioritize(question(Request(0), snapshot, "fragmentation", 8000), ["b", "c"], snapshot) == {"b": 10, "c": 10}


def test_fragmentation_likes_a_node_without_cards() -> None:
    """A pod without a card wastes no memory there, and none on a node with all its memory stranded already."""
    nodes = {name: lay_out(name, (Device(0, 16), Device(1, 16)), []) for name in ("needed", "stranded")}
    cpu = {"needed": 16_000, "stranded": 3000, "plain": 16_000}
    needy = Forecast({PodClass(8, cpu_milli=4000): 1})
    snapshot = Snapshot(nodes | {"plain": lay_out("plain", (), [])}, lambda: needy, cpu)
    asked = question(Request(0), snapshot, "fragmentation", 1000)

    assert prioritize(asked, list(cpu), snapshot) == {"needed": 0, "stranded": 10, "plain": 10}


def test_a_card_without_units_is_no_error() -> None:
    """A node may have more cards than units: its cards are of none."""
    snapshot = Snapshot({"odd": lay_out("odd", (Device(0, 0), Device(1, 0)), [])}, lambda: EXPECTED, {"odd": 8000})

    assert prioritize(question(Request(0), snapshot, "fragmentation", 1000), ["odd"], snapshot) == {"odd": 10}


def test_none_that_is_worse_is_among_the_best() -> None:
    """A scheduler draws lots between equals: 10 is for the best alone, however little the next is behind."""
    asked = question(Request(4), CLUSTER, "fragmentation")

    assert prioritize(asked, ["a", "b", "c"], CLUSTER, {"a": 0.0, "b": 0.01, "c": 10.0}) == {"a": 10, "b": 9, "c": 0}


def test_alike_nodes_are_alike_also_where_they_are_compared() -> None:
    """A difference in the last digit of a sum is no difference, and neither is a millionth of a unit."""
    nodes = {name: lay_out(name, (Device(0, 16, 5), Device(1, 16, 7)), []) for name in "abc"}
    snapshot = Snapshot(nodes, lambda: Forecast({PodClass(3): 1, PodClass(7): 1, PodClass(9): 1}))
    asked = question(Request(2), snapshot, "fragmentation")

    assert len(set(prioritize(asked, list(nodes), snapshot).values())) == 1
    assert prioritize(asked, list(nodes), snapshot, {"a": 0.0, "b": 1e-6, "c": 1.0}) == {"a": 10, "b": 10, "c": 0}


def test_node_that_is_unknown_or_too_small_scores_nothing() -> None:
    """A node that is unknown or too small scores 0: filter is its judge, but it must not win here."""
    asked = Question(Request(12))

    assert prioritize(asked, ["gone", "full", "empty"], CLUSTER) == {"gone": 0, "full": 0, "empty": 6}


def test_the_least_request_is_scored() -> None:
    """One unit; and where nodes are compared, one that does not hold the pod gets 0."""
    assert prioritize(Question(Request(1)), ["full"], CLUSTER) == {"full": 9}
    asked = question(Request(12), CLUSTER, "fragmentation")
    assert prioritize(asked, ["full", "empty"], CLUSTER) == {"full": 0, "empty": 10}


def test_a_pod_that_asks_for_nothing_finds_all_nodes_alike() -> None:
    """Cards have no opinion on it."""
    assert prioritize(Question(Request(0)), ["a", "b"], CLUSTER) == {"a": 0, "b": 0}


CARDS = st.lists(st.tuples(st.integers(1, 20), st.integers(0, 25), st.booleans()), min_size=1, max_size=4)


@pytest.mark.promise("EXT-016")
@given(st.lists(CARDS, min_size=1, max_size=5), st.integers(1, 20), st.sampled_from(wire.POLICIES))
def test_score_is_a_whole_number_from_0_to_10_for_each_node(
    nodes: list[list[tuple[int, int, bool]]], units: int, policy: str
) -> None:
    """A score is a whole number from 0 to 10, because kube-scheduler does not clamp it and refuses a fraction."""
    infos = {
        str(at): lay_out(str(at), tuple(Device(i, *card) for i, card in enumerate(cards)), [])
        for at, cards in enumerate(nodes)
    }
    snapshot = Snapshot(infos, lambda: Forecast({PodClass(4): 2, PodClass(9): 1}))
    found = prioritize(question(Request(units), snapshot, policy), list(infos), snapshot)

    assert list(found) == list(infos)
    assert all(type(score) is int and 0 <= score <= 10 for score in found.values())
