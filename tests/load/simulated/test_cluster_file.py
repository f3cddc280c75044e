"""A simulated cluster as data: the cluster that is made of it, and the errors for a file that describes none."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from load.simulated.cluster_file import build, node_names, read
from load.simulated.simulated_objects import published_cards

TEXT = """
seed: 3
units: {1: 2, 4: 1}
pools:
  - {name: small, nodes: 20, card: t4, cards: 2, pods: 6, labels: {zone: a}}
  - {name: large, nodes: 5, card: a10, cards: 8, pods: 20}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that is right."""
    file = tmp_path / "cluster.yaml"
    file.write_text(TEXT)
    return file


def test_nodes_are_of_their_pools(path: Path) -> None:
    """A pool has its number of nodes, with cards of the catalogue in whole GiB, and its name is a label of each node.

    Cards are spread over the NUMA nodes of the pool, as the plugin publishes them; there is one by default.
    """
    path.write_text(TEXT.replace("cards: 8,", "cards: 8, numa: 2,"))
    plan = read(path)
    world = build(plan)
    first, *_, last = world.nodes

    assert [node.name for node in world.nodes] == node_names(plan)
    assert plan.nodes == len(world.nodes) == 25
    assert (first.cards, first.card_units, first.model) == (2, 15, "Tesla T4")
    assert (last.cards, last.card_units, last.model) == (8, 22, "NVIDIA A10")
    assert first.labels == {"pool": "small", "zone": "a"}
    assert world.sizes == {1: 2.0, 4: 1.0}
    found = [[card["numa"] for card in json.loads(published_cards(node))["cards"]] for node in (first, last)]
    assert found == [[0, 0], [0, 0, 0, 0, 1, 1, 1, 1]]


def test_no_card_is_over_booked_and_pods_are_as_dense_as_asked(path: Path) -> None:
    """Each pool has about its mean of pods a node, of the sizes of the file; the same seed makes the same cluster."""
    plan = read(path)
    world = build(plan)
    used = Counter[tuple[str, int | None]]()
    for pod in world.running:
        used[pod.node, pod.card] += pod.units
    units = {node.name: node.card_units for node in world.nodes}
    assert all(used[node, card] <= units[node] for node, card in used)
    assert {pod.units for pod in world.running} == {1, 4}
    assert len({pod.name for pod in world.running}) == len(world.running)
    assert 60 < sum(pod.node.startswith("small") for pod in world.running) < 180
    # Two processes of a run build it each for itself.
    assert world == build(read(path)) != build(msgspec.structs.replace(plan, seed=4))
    assert plan.too_large == []
    assert msgspec.structs.replace(plan, units={1: 2.0, 22: 1.0, 80: 1.0, 23: 1.0}).too_large == [23, 80]
