"""Worlds: what is promised of each of them, whatever its size and seed."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from load.simulated.simulated_objects import node_object, pod_object
from load.simulated.simulated_world import CARD_UNITS, CARDS, UNITS_OF, Pod, World, measured, roomy_nodes

SIZES = [(10, 80, 1), (50, 500, 1), (50, 1600, 2), (201, 4000, 3)]


def free_of(world: World) -> dict[int, list[int]]:
    used = Counter[tuple[str, int | None]]()
    for pod in world.running:
        used[pod.node, pod.card] += pod.units
    return {
        number: [CARD_UNITS - used[node.name, card] for card in range(CARDS)] for number, node in enumerate(world.nodes)
    }


@pytest.mark.parametrize(("nodes", "pods", "seed"), SIZES)
def test_requests_fit_on_all_on_the_roomy_half_and_on_none(nodes, pods, seed) -> None:
    """Each size of request fits on the nodes of its name, and nothing is booked twice."""
    free, roomy = free_of(measured(nodes, pods, seed)), roomy_nodes(nodes, seed)
    assert len(roomy) == nodes // 2
    assert all(0 <= units <= CARD_UNITS for cards in free.values() for units in cards)
    assert {node for node, cards in free.items() if max(cards) >= UNITS_OF["half"]} == roomy
    assert all(UNITS_OF["all"] <= max(cards) < UNITS_OF["none"] <= CARD_UNITS for cards in free.values())


@pytest.mark.parametrize(("nodes", "pods", "seed"), SIZES)
def test_there_are_as_many_pods_as_asked_and_8_to_32_a_node(nodes, pods, seed) -> None:
    """50,000 pods on 5,000 nodes are just that many."""
    world = measured(nodes, pods, seed)
    counts = Counter(pod.node for pod in world.running)
    assert len(world.running) == pods
    assert len(counts) == nodes
    assert set(counts.values()) <= set(range(8, 33))
    assert all(pod.units >= 1 for pod in world.running)


def test_the_same_seed_makes_the_same_world_and_another_another() -> None:
    """A run can be repeated."""
    assert measured(20, 200, 7) == measured(20, 200, 7)
    assert measured(20, 200, 7) != measured(20, 200, 8)


@pytest.mark.parametrize("pods", [79, 321])
def test_too_few_or_too_many_pods_are_refused(pods) -> None:
    """An impossible wish is an error, not rounded."""
    with pytest.raises(ValueError, match="8 to 32 a node"):
        measured(10, pods, 1)


def test_objects_are_the_json_of_a_cluster() -> None:
    """Objects read back as what was put in, and a pod is as large as pods are."""
    shown = measured(10, 100, 1)
    pod = json.loads(pod_object(shown.running[5], 77))
    assert pod["spec"]["nodeName"] == shown.running[5].node
    assert pod["metadata"]["annotations"]["ALIYUN_COM_GPU_MEM_IDX"] == str(shown.running[5].card)
    assert pod["metadata"]["resourceVersion"] == "77"
    assert "nodeName" not in json.loads(pod_object(Pod("waits", 4), 1))["spec"]
    assert json.loads(node_object(shown.nodes[3], 1))["status"]["capacity"]["aliyun.com/gpu-mem"] == str(
        CARDS * CARD_UNITS
    )
    assert 5000 < len(pod_object(shown.running[5], 77)) < 10_000
