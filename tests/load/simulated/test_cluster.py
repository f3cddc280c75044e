"""Promises of a simulated API server and its cluster file: lists that are of one moment, pods that come, are bound and end."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from load.simulated.api_server import Pace
from load.simulated.cluster import PODS, Cluster
from load.simulated.cluster_file import build, node_names, read
from load.simulated.simulated_objects import Node, Pod, World, published_cards

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


WORLD = World(
    nodes=(Node("a", 2, 15, "Tesla T4", 15360, {"zone": "z"}), Node("b", 4, 22)),
    running=tuple(Pod(f"r{number}", 2, "a", number % 2, 15) for number in range(5)),
    sizes={5: 1.0},
)


def pods_of(cluster: Cluster, version: int | None = None) -> dict[str, Any]:
    """All pods of a list, by name."""
    found = cluster.collection(PODS, version)
    assert found is not None
    pods = [json.loads(found.make(at)) for at in range(found.count)]
    return {pod["metadata"]["name"]: pod for pod in pods}


def test_a_list_stays_as_it_was_when_it_began() -> None:
    """The later pages of a list are of the same version, whatever happens in between; a list of long ago is forgotten."""
    cluster = Cluster(WORLD)
    pod, _ = cluster.arrive()
    first = cluster.collection(PODS)
    assert first is not None
    cluster.arrive()
    cluster.bind(pod.name, "b", 3)

    again = pods_of(cluster, first.version)

    assert again.keys() == {pod.name, *(one.name for one in WORLD.running)}
    assert "nodeName" not in again[pod.name]["spec"]
    for _ in range(20):
        cluster.next_event()
        cluster.collection(PODS)
    assert cluster.collection(PODS, first.version) is None


def test_a_pod_comes_is_bound_and_another_ends() -> None:
    """A pod has one of the world's sizes, is reported, and runs on its card once it is bound; it is bound once.

    The number of pods that run stays the same; the pod that ends is reported, and is in no list.
    """
    cluster = Cluster(WORLD, 100)
    pod, come = cluster.arrive()
    events = [json.loads(event.line) for event in (come, *cluster.bind(pod.name, "b", 3))]

    # Versions rise by one each, so a watch that breaks between the two has missed neither.
    assert [event.version for event in cluster.events] == [101, 102, 103]
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert pod.units == 5
    assert events[1]["object"]["spec"]["nodeName"] == "b"
    assert events[1]["object"]["metadata"]["annotations"]["ALIYUN_COM_GPU_MEM_IDX"] == "3"
    assert cluster.bind(pod.name, "b", 3) == []
    assert len(cluster.running) == 5
    assert events[2]["object"]["metadata"]["name"] not in pods_of(cluster)


@pytest.mark.parametrize(
    ("node", "card", "units", "over_booked"),
    [
        # For a pod without a card the sum of its node is judged: a has 30 units, of which pods have 10.
        ("a", None, 20, {}),
        ("a", None, 21, {("a", None): (31, 30)}),
        # A card that is not there has no room.
        ("a", 2, 1, {("a", 2): (1, 0)}),
        ("nowhere", 0, 1, {("nowhere", 0): (1, 0)}),
        ("nowhere", None, 1, {("nowhere", None): (1, 0)}),
    ],
)
def test_a_pod_needs_the_room_of_its_place(node: str, card: int | None, units: int, over_booked: object) -> None:
    """The place and its use are named if it is over-booked; a pod without an index is counted."""
    cluster = Cluster(replace(WORLD, sizes={units: 1.0}))
    pod, _ = cluster.arrive()
    bound, _ = cluster.bind(pod.name, node, card)

    assert cluster.over_booked_cards == over_booked
    assert cluster.placed == {pod.name: node}
    assert cluster.counts["binds_without_card"] == (card is None)
    assert (json.loads(bound.line)["object"]["metadata"]["annotations"] == {}) == (card is None)


@pytest.mark.parametrize(("share", "units", "fits"), [(1.0, 11, 1.0), (0.5, 22, 0.5), (0.0, 23, 0.0)])
def test_a_size_is_found_for_the_share_of_nodes_that_hold_it(share: float, units: int, fits: float) -> None:
    """Node a has two cards of 15, with 6 units booked on one and 4 on the other; b has cards of 22."""
    assert WORLD.size_for(share) == units
    assert sum(room >= units for room in WORLD.rooms()) == fits * len(WORLD.nodes)


@pytest.mark.parametrize(("rate", "looks"), [(20.0, 7), (1.0, 200), (0.3, 13)])
def test_as_many_come_as_the_rate_says(rate: float, looks: int) -> None:
    """Over a minute, though the rate is set again each second and the test looks at odd moments."""
    now, come = [0.0], 0
    pace = Pace(lambda: now[0])
    for second in range(60):
        now[0] = float(second)
        pace.set(rate)
        for look in range(looks):
            now[0] = second + look / looks
            come += pace.due()
    now[0] = 60.0

    assert come + pace.due() == pytest.approx(60 * rate, abs=0.01)
