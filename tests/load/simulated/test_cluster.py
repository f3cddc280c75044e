"""Promises of a simulated API server: lists that are of one moment, pods that come, are bound and end."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from load.simulated.api_server import Pace
from load.simulated.cluster import PODS, Cluster
from load.simulated.simulated_objects import Node, Pod, World

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
