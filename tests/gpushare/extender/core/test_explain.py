"""Promises of gpushare.extender.core.explain."""

from __future__ import annotations

import pytest

from gpushare import wire
from gpushare.extender.core import explain as module
from gpushare.extender.core.explain import (
    CARD_NOT_WISHED,
    CARD_OF_OTHERS,
    NO_PREEMPTION,
    STATE_DELETING,
    STATE_LINGERING,
    card_reason,
    describe_ended,
    describe_request,
    explain,
    inspect_node,
    nodes_with_cards,
    room_if_ended,
    why_no_preemption,
)
from gpushare.model.eviction import Evictable
from gpushare.model.node import Booking, Device, NodeInfo, Published, lay_out
from gpushare.model.placement import Question, Snapshot
from gpushare.model.pod import Request
from gpushare.model.wishes import Wishes

FREE = lay_out("free", (Device(0, 14, 12, uuid="GPU-a", model="Tesla T4"), Device(1, 14, uuid="GPU-b")), [])
FULL = lay_out("full", (Device(0, 14, 10), Device(1, 4), Device(2, 14, healthy=False)), [])
HELD = ((0, "a", 10), (1, "b", 3))
CLUSTER = Snapshot({"free": FREE, "full": FULL})


def test_every_card_shows_its_room_the_request_and_the_reason() -> None:
    """The node that has room first; then what was answered last beside what would be answered now."""
    last = {"free": wire.REASON_NO_CARD_FITS, "gone": wire.REASON_UNKNOWN_NODE}
    found = explain(Question(Request(6)), CLUSTER, last, ["full", "gone", "free"])

    assert found["fits"] == ["free"]
    assert found["reasons"] == {wire.REASON_NO_CARD_FITS: 1, wire.REASON_UNKNOWN_NODE: 1}
    free, full, gone = found["nodes"]
    assert (free["fits"], free["reason"], free["lastReason"]) == (True, "", wire.REASON_NO_CARD_FITS)
    assert [card["reason"] for card in free["cards"]] == ["too full", ""]
    assert free["cards"][0] == {
        "id": 0, "uuid": "GPU-a", "model": "Tesla T4", "total": 14, "free": 2, "wanted": 6, "reason": "too full",
    }  # fmt: skip
    assert [card["reason"] for card in full["cards"]] == ["too full", "too small", "unhealthy"]
    assert (full["name"], "lastReason" in full, "preemption" in full) == ("full", False, False)
    unknown = wire.REASON_UNKNOWN_NODE
    assert gone == {"name": "gone", "fits": False, "reason": unknown, "lastReason": unknown, "cards": []}
    assert (found["nodesLeftOut"], found["request"]["priority"]) == (0, 0)
    assert not any("roomIfEnded" in card for card in free["cards"])
    assert found["judged"].startswith("cards only: nodeSelector,")


def test_refused_nodes_with_most_room_come_first() -> None:
    """After a smaller one that fits; a node without room before one that is not known, and equal ones by name."""
    sizes = (("c", 14, 14), ("b", 14, 14), ("d", 80, 9), ("wished", 8, 0))
    nodes = {name: lay_out(name, (Device(0, total, used, uuid=name),), []) for name, total, used in sizes}
    asked = Question(Request(6, wishes=Wishes(uuids=frozenset({"wished"}))))
    found = explain(asked, Snapshot(nodes), {}, ["a", *nodes])

    assert [node["name"] for node in found["nodes"]] == ["wished", "d", "b", "c", "a"]


@pytest.mark.parametrize(
    ("wishes", "shown"),
    [
        (Wishes(), {}),
        (
            Wishes(models=(" tesla t4 ",), uuids=frozenset({"gpu-a"}), group="ns/g"),
            {
                "gpushare.aliyun.com/card-model": ["tesla t4"],
                "gpushare.aliyun.com/card-uuid": ["gpu-a"],
                "gpushare.aliyun.com/same-card": "g",
            },
        ),
        (Wishes(banned_models=(" t4 ", " a100 ")), {"gpushare.aliyun.com/card-model-not": ["t4", "a100"]}),
        (Wishes(banned_uuids=frozenset("ba")), {"gpushare.aliyun.com/card-uuid-not": ["a", "b"]}),
        (Wishes(split=(4, 2)), {"gpushare.aliyun.com/split": [4, 2]}),
        (Wishes(whole=True), {"gpushare.aliyun.com/split": "whole"}),
    ],
)
def test_each_wish_is_shown_as_it_is_written(wishes: Wishes, shown: dict[str, object]) -> None:
    """By the names of the annotations, lists in one order; a wish that the pod does not have is left out."""
    described = {"units": 6, "slots": 1, "policy": "binpack", "wishes": shown}

    assert describe_request(Question(Request(6, wishes=wishes))) == described


def test_slots_are_shown_if_they_are_counted() -> None:
    """A card may be full of containers."""
    node = lay_out("n", (Device(0, 80, slots=2, slots_used=2), Device(1, 80, slots=2, slots_used=1)), [])
    cards = explain(Question(Request(6)), Snapshot({"n": node}), {}, ["n"])["nodes"][0]["cards"]

    assert [(card["slots"], card["freeSlots"], card["reason"]) for card in cards] == [
        (2, 0, "no free slot"),
        (2, 1, ""),
    ]


def test_a_whole_card_and_a_split_say_what_each_card_lacks() -> None:
    """The smallest part of a split is the amount that a card must hold to be of use; no card of a refused node is."""
    whole, split = Wishes(whole=True), Wishes(split=(9, 6, 3))

    assert (
        card_reason(FREE.devices[1], FREE, Question(Request(6, wishes=whole))) == "not exactly as large as the request"
    )
    assert card_reason(FREE.devices[0], FREE, Question(Request(18, wishes=split))) == "too full"
    assert card_reason(FULL.devices[1], FULL, Question(Request(18, wishes=split))) == ""
    assert card_reason(FREE.devices[1], FREE, Question(Request(14, wishes=whole))) == ""
    closed = lay_out("n", FREE.devices, [], Published("refused"))
    assert card_reason(FREE.devices[1], closed, Question(Request(1))) == "refused"


def test_a_card_that_is_not_wished_for_is_named_as_such() -> None:
    """By its UUID, in whatever case it is written; before where the pods of the group are, on their node and their card."""
    asked = Question(Request(2, wishes=Wishes(uuids=frozenset({"gpu-a"}))), group_cards={"free": frozenset({1})})
    found = explain(asked, CLUSTER, {}, ["free"], 7)

    assert found["request"]["priority"] == 7
    assert [card["reason"] for card in found["nodes"][0]["cards"]] == [CARD_OF_OTHERS, CARD_NOT_WISHED]
    grouped = Question(Request(2), group_cards={"free": frozenset({1})})
    assert [card_reason(card, FREE, grouped) for card in FREE.devices] == [CARD_OF_OTHERS, ""]
    assert card_reason(FULL.devices[0], FULL, grouped) == CARD_OF_OTHERS


def test_pods_whose_end_makes_room_are_named() -> None:
    """On each card that is too full, and with why kube-scheduler does not preempt them, if it does not."""
    low = Evictable(5, (), (), is_entangled=False, is_ending=False)
    bookings = [Booking(name, "ns", name, units, ((at, units),), evictable=low) for at, name, units in HELD]
    node = lay_out("n", (Device(0, 15), Device(1, 15), Device(2, 9)), bookings)
    (found,) = explain(Question(Request(15)), Snapshot({"n": node}), {}, ["n"], 1000)["nodes"]
    (equal,) = explain(Question(Request(15)), Snapshot({"n": node}), {}, ["n"], 5)["nodes"]

    assert found["preemption"] == NO_PREEMPTION
    assert "preemption" not in equal
    assert [[one["name"] for one in card.get("roomIfEnded", ())] for card in found["cards"]] == [["a"], ["b"], []]
    assert found["cards"][0]["roomIfEnded"] == [{"namespace": "ns", "name": "a", "units": 10, "priority": 5}]
    assert found["cards"][2]["reason"] == "too small"


def test_nodes_with_most_room_of_a_large_cluster_are_described(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are counted; a question must not hold up schedulers."""
    monkeypatch.setattr(module, "MOST_NODES", 2)
    nodes = {name: lay_out(name, (Device(0, 14, used),), []) for name, used in (("a", 13), ("b", 12), ("c", 11))}
    found = explain(Question(Request(6)), Snapshot(nodes), {}, nodes)

    assert [node["name"] for node in found["nodes"]] == ["c", "b"]
    assert (found["nodesLeftOut"], found["reasons"]) == (1, {wire.REASON_NO_CARD_FITS: 3})


def on(
    uid: str, units: int, priority: int = 0, *, card: int = 0, ending: bool = False, lingering: bool = False
) -> Booking:
    """A pod on a card."""
    evictable = Evictable(priority, (), (), is_entangled=False, is_ending=ending, is_lingering=lingering)
    return Booking(uid, "ns", uid, units, ((card, units),), evictable=evictable)


def node(*bookings: Booking, slots: int = 0) -> NodeInfo:
    """Two cards of 10 units."""
    return lay_out("n", (Device(0, 10, slots=slots), Device(1, 10, slots=slots)), bookings)


def names(info: NodeInfo, wanted: int, slots: int = 1) -> list[str]:
    """The pods whose end makes room on card 0."""
    return [one.uid for one in room_if_ended(info.devices[0], info, wanted, slots)]


@pytest.mark.parametrize(
    ("bookings", "wanted", "expected"),
    [
        pytest.param((on("a", 4, 5), on("b", 4, 1)), 4, ["b"], id="lowest-priority"),
        pytest.param((on("a", 2), on("b", 6)), 5, ["b"], id="largest"),
        pytest.param((on("low", 1), on("high", 8, 9)), 9, ["high"], id="a-small-one-may-stay"),
        pytest.param((on("a", 4), on("b", 4, 9, lingering=True)), 5, ["b"], id="lingering-first"),
        pytest.param((on("a", 4), on("b", 4, 9, ending=True)), 5, ["b"], id="ending-first"),
        pytest.param((on("a", 4), on("b", 6)), 10, ["b", "a"], id="all"),
        pytest.param((on("b", 4), on("a", 4)), 4, ["a"], id="by-uid"),
        pytest.param((on("a", 4, ending=True), on("b", 4, lingering=True)), 5, ["b"], id="lingering-before-ending"),
        pytest.param((on("a", 4, -1), on("b", 6, -1)), 4, ["b"], id="negative-priority"),
        pytest.param((on("a", 10),), 11, [], id="too-large"),
        pytest.param((on("a", 2), on("other", 9, card=1)), 8, [], id="room-already"),
        pytest.param((Booking("assumed", "ns", "assumed", 9, ((0, 9),)),), 8, [], id="not-bound-yet"),
    ],
)
def test_room_needs_the_fewest_and_least_worthy(
    bookings: tuple[Booking, ...], wanted: int, expected: list[str]
) -> None:
    """Pods that go anyway come first, then the lowest priority, then the largest; no pod is named that may stay."""
    assert names(node(*bookings), wanted) == expected


def test_slots_are_freed_too() -> None:
    """A card with free memory and no free slot names a pod for its slot."""
    full = lay_out("n", (Device(0, 10, slots=2),), [on("a", 1), on("b", 1, 5)])
    assert names(full, 4) == ["a"]
    (found,) = explain(Question(Request(4, slots=2)), Snapshot({"n": full}), {}, ["n"])["nodes"]
    assert [one["name"] for one in found["cards"][0]["roomIfEnded"]] == ["a", "b"]


def test_a_pod_is_described_with_its_state() -> None:
    """Units on this card, priority, and why a pod that seems to be gone still counts."""
    device = Device(0, 10)

    assert describe_ended(on("a", 4, 7), device) == {"namespace": "ns", "name": "a", "units": 4, "priority": 7}
    assert describe_ended(on("a", 4, lingering=True), device)["state"] == STATE_LINGERING
    assert describe_ended(on("a", 4, ending=True), device)["state"] == STATE_DELETING


def test_no_preemption_is_explained() -> None:
    """A missing preemption is explained only if pods of lower priority are in the way and the node has room in sum."""
    full, half = (on("a", 10), on("b", 10, card=1)), (on("a", 6), on("b", 6, card=1))

    assert why_no_preemption(node(*half), 8, 9, [[half[0]]]) == NO_PREEMPTION
    assert why_no_preemption(node(*half), 8, 0, [[half[0]]]) == ""
    assert why_no_preemption(node(*half), 8, 9, [[]]) == ""
    assert why_no_preemption(node(*full), 8, 9, [[full[0]]]) == ""
    lingering = (on("a", 10, lingering=True), on("b", 10, card=1))
    assert why_no_preemption(node(*lingering), 8, 9, [[lingering[0]]]) == NO_PREEMPTION, "the scheduler counts 10 of 20"


INSPECTED_PODS = [
    Booking("2", "default", "b", 3, ((1, 3),)),
    Booking("1", "default", "a", 4, ((0, 1), (1, 3))),
    Booking("3", "default", "lost", 2, ()),
]
INSPECTED = Snapshot(
    {
        "z": lay_out("z", (Device(0, 14), Device(1, 10)), INSPECTED_PODS),
        "a": lay_out("a", (Device(0, 8),), []),
        "cpu": lay_out("cpu", (), []),
    }
)


def test_all_nodes_with_cards_are_listed_by_name() -> None:
    """Nodes without cards are left out, as in the original; a pod has on each card what it has there."""
    assert [node.name for node in nodes_with_cards(INSPECTED)] == ["a", "z"]
    (found,) = inspect_node(INSPECTED, "z")["nodes"]
    assert (found["name"], found["totalGPU"], found["usedGPU"]) == ("z", 24, 7)
    a, b = ({"name": name, "namespace": "default", "usedGPU": 3} for name in "ab")
    assert found["devs"] == [
        {"id": 0, "totalGPU": 14, "usedGPU": 1, "pods": [a | {"usedGPU": 1}]},
        {"id": 1, "totalGPU": 10, "usedGPU": 6, "pods": [a, b]},
    ]


def test_an_unknown_node_is_an_error_that_names_it() -> None:
    """The original closes the connection (defect D19)."""
    assert inspect_node(INSPECTED, "nope") == {"nodes": [], "error": "node nope is not known to the extender"}
