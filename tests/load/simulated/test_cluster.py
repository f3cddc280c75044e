"""Promises of a simulated API server: lists that are of one moment, pods that come, are bound and end."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from load.simulated.api_server import Pace
from load.simulated.cluster import PODS, Cluster
from load.simulated.simulated_world import Node, Pod, World

WORLD = World(
    nodes=(Node("a", 2, 15, "Tesla T4", 15360, {"zone": "z"}), Node("b", 4, 22)),
    running=tuple(Pod(f"r{number}", 2, "a", number % 2, 15) for number in range(6)),
    waiting=(Pod("w", 3),),
    sizes={5: 1.0},
)


def items(cluster: Cluster, path: str, version: int | None = None) -> list[dict[str, Any]]:
    """A whole list."""
    found = cluster.collection(path, version)
    assert found is not None
    return [json.loads(found.make(at)) for at in range(found.count)]


def test_a_list_stays_as_it_was_when_it_began() -> None:
    """The later pages of a list are of the same version, whatever happens in between; a list of long ago is forgotten."""
    cluster = Cluster(WORLD, 1, 100)
    first = cluster.collection(PODS)
    assert first is not None
    cluster.arrive()
    cluster.bind("w", "b", 3)

    again = items(cluster, PODS, first.version)

    assert {pod["metadata"]["name"] for pod in again} == {"w", *(f"r{number}" for number in range(6))}
    assert "nodeName" not in next(pod for pod in again if pod["metadata"]["name"] == "w")["spec"]
    for _ in range(20):
        cluster.next_event()
        cluster.collection(PODS)
    assert cluster.collection(PODS, first.version) is None


def test_a_pod_that_comes_waits_until_it_is_bound() -> None:
    """A pod has one of the world's sizes, is reported, and runs on its card once it is bound; it is bound once."""
    cluster = Cluster(WORLD, 1, 100)
    pod, event = cluster.arrive()
    (bound,) = cluster.bind(pod.name, "b", 3)
    told = json.loads(bound.line)

    assert (pod.units, json.loads(event.line)["type"]) == (5, "ADDED")
    assert told["type"] == "MODIFIED"
    assert told["object"]["spec"]["nodeName"] == "b"
    assert told["object"]["metadata"]["annotations"]["ALIYUN_COM_GPU_MEM_IDX"] == "3"
    assert cluster.bind(pod.name, "b", 3) == []
    assert pod in [one._replace(node="", card=0, card_units=0) for one in cluster.running]
    assert cluster.arrive(7)[0].units == 7


def test_pod_ends_for_each_bound_one_in_a_steady_cluster() -> None:
    """The number of pods that run stays the same; the end of a pod is reported, and the pod is in no list."""
    cluster = Cluster(WORLD, 1, 100, is_steady=True)
    cluster.bind("w", "b", 3)
    cluster.next_event()
    gone = json.loads(cluster.events[1].line)

    # Versions rise by one each, so a watch that breaks between the two has missed neither.
    assert [event.version for event in cluster.events] == [101, 102, 103]
    assert gone["type"] == "DELETED"
    assert len(cluster.running) == 6
    assert gone["object"]["metadata"]["name"] not in {pod["metadata"]["name"] for pod in items(cluster, PODS)}
    assert cluster.counts["ended"] == 1


def test_a_card_that_gets_more_than_it_holds_is_counted() -> None:
    """The pods that ran on the card from the beginning count; the room that a pod left is room again."""
    cluster = Cluster(WORLD, 1, 100, is_steady=True)
    expected = 0
    for _ in range(30):
        pod, _ = cluster.arrive()
        there = sum(one.units for one in cluster.running if (one.node, one.card) == ("a", 0))
        cluster.bind(pod.name, "a", 0)
        expected += there + pod.units > 15
        assert cluster.counts["over_booked"] == expected
    assert expected > 0


def test_a_pod_without_a_card_is_judged_by_the_sum_of_its_node() -> None:
    """A pod's card is unknown if its extender wrote no index; node a has 30 units, of which pods have 12."""
    cluster = Cluster(WORLD, 1, 100)
    for units, over_booked in ((18, 0), (1, 1)):
        pod, _ = cluster.arrive(units)
        (bound,) = cluster.bind(pod.name, "a", None)
        assert json.loads(bound.line)["object"]["metadata"]["annotations"] == {}
        assert cluster.counts["over_booked"] == over_booked

    assert cluster.counts["binds_without_card"] == 2
    assert cluster.over_booked_cards == {("a", None): (31, 30)}


@pytest.mark.parametrize(("node", "card"), [("a", 2), ("b", 99), ("nowhere", 0), ("nowhere", None)])
def test_a_card_that_is_not_there_has_no_room(node: str, card: int | None) -> None:
    """A pod that is bound to it is over-booked."""
    cluster = Cluster(WORLD, 1, 100)
    cluster.bind("w", node, card)

    assert cluster.over_booked_cards == {(node, card): (3, 0)}
    assert cluster.placed == {"w": node}


@pytest.mark.parametrize(("share", "units", "fits"), [(1.0, 11, 1.0), (0.5, 22, 0.5), (0.0, 23, 0.0)])
def test_a_size_is_found_for_the_share_of_nodes_that_hold_it(share: float, units: int, fits: float) -> None:
    """Node a has two cards of 15, with 6 units booked on one and 4 on the other; b has cards of 22."""
    world = replace(WORLD, running=WORLD.running[:5])
    assert world.size_for(share) == units
    assert sum(room >= units for room in world.rooms()) == fits * len(world.nodes)


@pytest.mark.parametrize(("rate", "looks"), [(20.0, 7), (1.0, 200), (0.3, 13)])
def test_as_many_come_as_the_rate_says(rate: float, looks: int) -> None:
    """Over a minute, though the rate is set again each second and the test looks at odd moments."""
    now, pace, come = [0.0], None, 0
    pace = Pace(lambda: now[0])
    for second in range(60):
        now[0] = float(second)
        pace.set(rate)
        for look in range(looks):
            now[0] = second + look / looks
            come += pace.due()
    now[0] = 60.0

    assert come + pace.due() == pytest.approx(60 * rate, abs=0.01)
