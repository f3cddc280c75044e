"""Worlds: what is promised of each of them, whatever its size and seed."""

from __future__ import annotations

from collections import Counter

import pytest

from load.simulated.simulated_objects import pod_object
from load.simulated.simulated_world import CARD_UNITS, CARDS, UNITS_OF, World, measured, roomy_nodes


def free_of(world: World) -> dict[int, list[int]]:
    used = Counter[tuple[str, int | None]]()
    for pod in world.running:
        used[pod.node, pod.card] += pod.units
    return {
        number: [CARD_UNITS - used[node.name, card] for card in range(CARDS)] for number, node in enumerate(world.nodes)
    }


@pytest.mark.parametrize(("nodes", "pods", "seed"), [(10, 80, 1), (50, 500, 1), (50, 1600, 2), (201, 4000, 3)])
def test_a_world_is_as_its_questions_need_it(nodes, pods, seed) -> None:
    """As many pods as asked, 8 to 32 a node; each size of request fits on the nodes of its name, and nothing is booked twice."""
    world, roomy = measured(nodes, pods, seed), roomy_nodes(nodes, seed)
    free, counts = free_of(world), Counter(pod.node for pod in world.running)
    assert (len(world.running), len(counts), len(roomy)) == (pods, nodes, nodes // 2)
    assert set(counts.values()) <= set(range(8, 33))
    assert all(pod.units >= 1 for pod in world.running)
    assert all(0 <= units <= CARD_UNITS for cards in free.values() for units in cards)
    assert {node for node, cards in free.items() if max(cards) >= UNITS_OF["half"]} == roomy
    assert all(UNITS_OF["all"] <= max(cards) < UNITS_OF["none"] <= CARD_UNITS for cards in free.values())
    # A pod as an API server sends it.
    assert 5000 < len(pod_object(world.running[5], 77)) < 10_000
    # A run can be repeated.
    assert world == measured(nodes, pods, seed) != measured(nodes, pods, seed + 1)


@pytest.mark.parametrize("pods", [79, 321])
def test_too_few_or_too_many_pods_are_refused(pods) -> None:
    """An impossible wish is an error, not rounded."""
    with pytest.raises(ValueError, match="8 to 32 a node"):
        measured(10, pods, 1)
