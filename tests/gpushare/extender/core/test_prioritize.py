"""Promises of gpushare.extender.core.prioritize."""

from __future__ import annotations

import pytest

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


THREE = (Device(0, 16, 8, uuid="a"), Device(1, 16, uuid="b"), Device(2, 16, 9, uuid="c"))
MORE = Snapshot(
    dict(CLUSTER.nodes)
    | {
        "over-booked": lay_out("over-booked", (Device(0, 16), Device(1, 16, 40)), []),
        "three": lay_out("three", THREE, []),
        "odd": lay_out("odd", (Device(0, 0), Device(1, 0)), []),
    },
    lambda: EXPECTED,
    {"odd": 8000},
)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        # A pod past the extender is on the other card: the node is full, and no more.
        (Question(Request(16)), {"over-booked": 10}),
        # The tightest cards that hold the parts: 29 of their 32 units are used with the pod, and of the node 29 of 48.
        (Question(Request(12, wishes=Wishes(split=(7, 5)))), {"three": 8}),
        # Filter judges a node that is unknown or too small, but it must not win here, nor if nodes are compared.
        (Question(Request(12)), {"gone": 0, "full": 0, "empty": 6}),
        (question(Request(12), MORE, "fragmentation"), {"full": 0, "empty": 10}),
        (question(Request(40), MORE, "fragmentation"), {"full": 0, "empty": 0}),
        (Question(Request(1)), {"full": 9}),
        # Cards have no opinion on a pod that asks for nothing.
        (Question(Request(0)), {"empty": 0, "full": 0}),
        # A node may have more cards than units: its cards are of none.
        (question(Request(0), MORE, "fragmentation", 1000), {"odd": 10}),
    ],
)
def test_a_node_is_scored_as_it_would_be_filled(asked: Question, expected: dict[str, int]) -> None:
    """How full the node and the card would be, each half, from 0 to 10."""
    assert prioritize(asked, list(expected), MORE) == expected


def test_values_are_kept_for_the_next_question() -> None:
    """The values of known nodes are kept, and are not computed again."""
    known: dict[str, float] = {"half": 1}

    assert prioritize(Question(Request(4)), ["gone", "half", "full"], CLUSTER, known) == {
        "gone": 0,
        "half": 1,
        "full": 10,
    }
    assert known == {"half": 1, "full": 10}


@pytest.mark.parametrize(
    ("cpu", "asked", "expected"),
    [
        ({"a": 16_000, "b": 32_000}, 8000, {"a": 0, "b": 10}),
        # If CPU is not known all nodes score alike.
        ({"b": 32_000, "c": None}, 8000, {"b": 10, "c": 10}),
        # No memory is wasted on a node without cards, nor on one with all its memory stranded already.
        ({"a": 16_000, "b": 3000, "plain": 16_000}, 1000, {"a": 0, "b": 10, "plain": 10}),
    ],
)
def test_fragmentation_likes_where_cpu_is_not_stranded(
    cpu: dict[str, int | None], asked: int, expected: dict[str, int]
) -> None:
    """A pod without a card belongs on CPU that cards do not need."""
    nodes = {name: lay_out(name, (Device(0, 16), Device(1, 16)), []) for name in "abc"}
    nodes["plain"] = lay_out("plain", (), [])
    free = {name: amount for name, amount in cpu.items() if amount is not None}
    snapshot = Snapshot(nodes, lambda: Forecast({PodClass(8, cpu_milli=4000): 1}), free)

    assert prioritize(question(Request(0), snapshot, "fragmentation", asked), list(cpu), snapshot) == expected


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
