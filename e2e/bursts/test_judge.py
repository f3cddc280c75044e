"""Bursts follow from their seeds and keep their rules, and the verdict on one finds what is wrong."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from e2e import spec
from e2e.bursts.burst_plan import PARTS, PodPlan, make_burst
from e2e.bursts.burst_stage import BURSTS_OF_A_WORLD, Venue
from e2e.bursts.card_faults import COOL_DOWN_SECONDS, Fault, Moment, moments
from e2e.bursts.judge import (
    held_memory,
    is_kept_out,
    is_turned_away,
    is_without_room,
    started_again,
    unsettled,
    wrong_node,
    wrong_rows,
)
from e2e.bursts.world import units_of_model
from e2e.checkers.history import Card, Cards, Listed, judge

NODES = {"a": {0: 14, 1: 14}, "b": {0: 14, 1: 10}}
BURSTS = [make_burst(f"test/{number}", NODES) for number in range(300)]


def test_the_same_seed_is_the_same_burst() -> None:
    """A seed gives the same burst each time, so a burst that failed can be played again."""
    assert BURSTS[:20] == [make_burst(f"test/{number}", NODES) for number in range(20)]
    assert len({burst.steps for burst in BURSTS}) == len(BURSTS)


def test_bursts_have_everything_that_they_are_for() -> None:
    """All that may be left out, at least once; what is left out is not there, and the rest is as before."""
    for part in PARTS:
        assert any(burst.without(part).steps != burst.steps for burst in BURSTS)
    for burst in BURSTS[:20]:
        one, *_, last = burst.made
        less = make_burst(f"{burst.seed}-{one}-{last}", NODES)
        assert {*less.made} == {*burst.made} - {one, last}
        assert make_burst(f"{burst.seed}-gaps", NODES).steps == burst.without("gaps").steps
    restarts = {step.restart_kubelet for burst in BURSTS for step in burst.steps}
    assert restarts == {step.restart_plugin for burst in BURSTS for step in burst.steps} == {"", *NODES}
    twins = [burst for burst in BURSTS if len({pod.containers for pod in burst.made.values()}) == 1]
    assert len(BURSTS) / 10 < len(twins) < len(BURSTS) / 2


def test_a_container_without_a_card_holds_none_of_one() -> None:
    """A plain container of a greedy pod would end for want of a card."""
    pods = [pod for burst in BURSTS for pod in burst.made.values() if pod.is_greedy and not all(pod.containers)]
    plain = [
        {one["name"]: one["value"] for one in container["env"]}["SIMULATED_HOLDS_MIB"]
        for pod in pods
        for container, units in zip(pod.manifest()["spec"]["containers"], pod.containers, strict=True)
        if not units
    ]

    assert {*plain} == {"0"}


def test_worlds_have_boxes_of_1_to_16_cards_of_mixed_sizes() -> None:
    """Each third one has more than eight; the bursts of one world have the same."""
    worlds = [Venue().world(f"7/{number}").nodes for number in range(180)]
    counts = [{len(node.models) for node in world} for world in worlds]
    sizes = [{units_of_model(model, node.driver) for model in node.models} for world in worlds for node in world]

    assert worlds[:BURSTS_OF_A_WORLD] == [worlds[0]] * BURSTS_OF_A_WORLD != worlds[BURSTS_OF_A_WORLD:][:3]
    assert sum(max(of) > 8 for of in counts) == len(worlds) / 3
    assert (min(map(min, counts)), max(map(max, counts))) == (1, 16)
    assert min(map(min, sizes)) > 0
    assert max(map(len, sizes)) > 1
    assert Venue(is_real=True).world("7/1").nodes == ()


SIZES = {"n": {0: 14, 1: 14}}
UUIDS = {"n": {0: "GPU-a", 1: "GPU-b"}}


def pod(name: str, *units: int, card: int = 0, phase: str = "Running", node: str | None = "n") -> dict[str, Any]:
    """A pod as the API shows it."""
    made = PodPlan(name, units).manifest()
    made["metadata"] |= {"namespace": "bursts", "uid": name}
    if node is not None:
        made["spec"]["nodeName"] = node
        made["metadata"]["annotations"] = {spec.POD_INDEX: str(card), spec.POD_ASSIGNED: "true"}
    statuses = [{"name": "c0", "ready": phase == "Running", "restartCount": 0, "state": {"running": {}}}]
    return made | {"status": {"phase": phase, "containerStatuses": statuses}}


def split(name: str, *parts: int) -> dict[str, Any]:
    """A pod that waits for units on each of several cards."""
    made = pod(name, sum(parts), node=None, phase="Pending")
    made["metadata"]["annotations"] = {spec.WISH_SPLIT: ", ".join(map(str, parts))}
    return made


def cards(at: float = 2.0, *, held: tuple[int, int] = (2880, 2880)) -> Cards:
    """The node's two cards."""
    return Cards(at, "n", {index: Card(14, UUIDS["n"][index], mib) for index, mib in enumerate(held)})


PODS = [pod("a", 3), pod("b", 3, card=1)]
AGAIN = pod("a", 3)
AGAIN["status"]["containerStatuses"][0]["restartCount"] = 1


@pytest.mark.parametrize(
    ("first", "held", "found"),
    [
        (PODS[0], (2880, 2880), []),
        (
            PODS[0],
            (6144, 0),
            [
                "2.0 s, held memory: card 0 of n: processes hold 6144 MiB, its pods 2880",
                "2.0 s, held memory: card 1 of n: processes hold 0 MiB, its pods 2880",
            ],
        ),
        (AGAIN, (2880, 2880), ["1.0 s, started again: bursts/a, n"]),
    ],
    ids=["right", "another card", "out of memory"],
)
def test_the_memory_of_each_card_is_that_of_its_pods(first: Any, held: tuple[int, int], found: list[str]) -> None:
    """Too much and too little are found, and a container that ended and was started again on a card that was fuller."""
    seen = judge([Listed(1.0, [first, PODS[1]]), cards(held=held)], started_again, held_memory)
    assert list(map(str, seen)) == found


@pytest.mark.parametrize(
    ("pods", "text"),
    [
        ([pod("a", 3), pod("b", 3, card=1)], ""),
        ([pod("a", 12), pod("b", 12, node=None, phase="Pending"), pod("c", 3, card=1)], "c: is still there"),
        ([pod("a", 3)], "b: is not there"),
        ([pod("a", 3), pod("b", 3, phase="Pending")], "b: bound to n, but Pending: "),
        (
            [pod("a", 3), pod("b", 14, node=None, phase="Pending")],
            "b: waits for 14 units, but the cards of a node have [14, 11]",
        ),
        ([pod("a", 3), split("b", 12, 9)], "b: waits for 21 units, but the cards of a node have [14, 11]"),
        ([pod("a", 3), split("b", 12, 12)], ""),
    ],
    ids=[
        "right",
        "left over, and one that has to wait",
        "missing",
        "stuck",
        "not scheduled",
        "split",
        "split, and full",
    ],
)
def test_what_is_stuck_is_found(pods: list[dict[str, Any]], text: str) -> None:
    """A pod that should run, wait or be gone, and does not, is a finding."""
    assert unsettled(pods, frozenset({"a", "b"}), SIZES)[:1] == ([text] if text else [])


def test_a_wrong_row_of_the_table_is_found() -> None:
    """Another address than the first internal one, another amount, and no row."""
    addresses = [{"type": "ExternalIP", "address": "203.0.113.9"}, {"type": "InternalIP", "address": "127.0.0.1"}]
    nodes = [{"metadata": {"name": "n"}, "status": {"addresses": addresses}}]
    assert wrong_rows("n  127.0.0.1  3/14  3/14  6/28", PODS, nodes, SIZES) == []
    for row in ("n 203.0.113.9 3/14 3/14 6/28", "n 127.0.0.1 3/14 0/14 3/28", ""):
        (found,) = wrong_rows(row, PODS, nodes, SIZES)
        assert "should be ['127.0.0.1', '3/14', '3/14']" in found


TURNED_AWAY = "Allocate failed due to no healthy devices present; cannot allocate"
NO_POD = "Allocate failed due to rpc error: desc = no pod waits for 3 units"
NO_ROOM = "rpc error: desc = card 0 has 6 units left for the 7 of pod bursts/a"
KEPT = f"{NO_ROOM}: the kubelet keeps 9 for pods that have ended"


def kept_out(pod: dict[str, Any], _: frozenset[str]) -> bool:
    """On real kubelets, with or without a restart."""
    return is_kept_out(pod)


@pytest.mark.parametrize(
    ("excuse", "message", "restarted", "is_replaced"),
    [
        pytest.param(is_turned_away, TURNED_AWAY, "n", True, id="restart"),
        pytest.param(is_turned_away, TURNED_AWAY, "m", False, id="restart elsewhere"),
        pytest.param(is_turned_away, NO_POD, "n", False, id="refused by the plugin"),
        pytest.param(is_without_room, NO_ROOM, "n", True, id="no room after a kubelet's restart"),
        pytest.param(is_without_room, NO_ROOM, "m", False, id="no room"),
        pytest.param(is_without_room, NO_POD, "n", False, id="no pod waits"),
        pytest.param(is_without_room, KEPT, "n", False, id="turned away"),
        pytest.param(kept_out, KEPT, "", True, id="ids of ended pods are kept"),
        pytest.param(kept_out, NO_ROOM, "", False, id="the card is too full"),
    ],
)
def test_only_pods_that_a_restart_refused_are_replaced(
    excuse: Callable[[dict[str, Any], frozenset[str]], bool], message: str, restarted: str, is_replaced: bool
) -> None:
    """A pod is replaced if a restarting kubelet or plugin refused it for a known reason, and every other failure is a finding."""
    failed = pod("a", 3, phase="Failed")
    failed["status"] |= {"reason": "UnexpectedAdmissionError", "message": message}

    assert excuse(failed, frozenset({restarted})) is is_replaced
    assert excuse(pod("a", 3), frozenset({restarted})) is False
    assert any("Failed" in finding for finding in unsettled([failed], frozenset({"a"}), SIZES))


def test_a_node_is_compared_with_its_cards_and_pods() -> None:
    """Cards, amounts, condition and the operator's annotation are right, or each is named."""
    made = [
        {"index": index, "uuid": uuid, "units": 14, "healthy": index == 0, "reason": "lost" * index}
        for index, uuid in UUIDS["n"].items()
    ]
    capacity = {spec.RESOURCE_MEMORY: "28", spec.RESOURCE_COUNT: "2"}
    node: dict[str, Any] = {
        "metadata": {"name": "n", "annotations": {spec.NODE_CARDS: json.dumps({"v": 1, "mode": "ids", "cards": made})}},
        "status": {
            "capacity": capacity,
            "allocatable": capacity | {spec.RESOURCE_MEMORY: "17"},
            "conditions": [{"type": spec.NODE_HEALTHY, "status": "False"}],
        },
    }

    assert wrong_node(node, PODS, cards().cards, {1: "lost"}) == []
    node["metadata"]["annotations"][spec.NODE_RECOVERED] = "1"
    assert len(wrong_node(node, PODS, cards().cards, {})) == 4


def test_a_card_changes_once_and_recovers_after_its_cool_down() -> None:
    """Each write of the Node shows a card as before or as after a moment, in this order, and no recovery comes too early."""
    moment = Moment((("repair", "0"),), "", {0: Fault("lost", is_lost=True)}, {0: Fault()})
    lost, well, other = {0: "lost"}, {0: ""}, {0: "Xid 13"}

    assert [*moment.wrong(5.0, [(5.0, lost), (5.0 + COOL_DOWN_SECONDS, well)])] == []
    assert [*moment.wrong(5.0, [(5.5, well)])] == ["card 0 recovered 0.5 s after (('repair', '0'),)"]
    assert len([*moment.wrong(5.0, [(6.0, other), (6.0, well)])]) == 1


def test_a_node_keeps_a_healthy_card_at_each_moment() -> None:
    """Without one no device plugin counts as started. Cards fail and recover."""
    faults = {0: Fault(), 1: Fault("Xid 79", is_advised=True)}
    seen = [
        one for seed in range(400) for one in moments(random.Random(seed), faults, [0, 1], knows_advice=seed % 2 > 0)
    ]

    assert all(any(not fault.reason for fault in one.after.values()) for one in seen)
    reasons = {fault.reason for one in seen for fault in one.after.values()}
    assert reasons == {"", "lost", "recovery action", "Xid 48", "Xid 79", "Xid 119", "Xid 61", "Xid 92"}
