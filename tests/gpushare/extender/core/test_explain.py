"""Promises of gpushare.extender.core.explain."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare import wire
from gpushare.extender.core import explain as module
from gpushare.extender.core.explain import NO_PREEMPTION, card_reason, explain
from gpushare.model.device import Device
from gpushare.model.eviction import Evictable
from gpushare.model.node import Booking, lay_out
from gpushare.model.placement import Question, Snapshot, reason_against
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
    assert ("lastReason" in full, gone["cards"], gone["lastReason"]) == (False, [], wire.REASON_UNKNOWN_NODE)


def test_wishes_are_shown_by_the_names_of_their_annotations() -> None:
    """And each card against them."""
    wishes = Wishes(models=(" tesla t4 ",), uuids=frozenset({"gpu-a"}), group="ns/g")
    found = explain(Question(Request(2, wishes=wishes), home={"free": frozenset({1})}), CLUSTER, {}, ["free"])

    assert found["request"] == {
        "units": 2,
        "slots": 1,
        "policy": "binpack",
        "priority": 0,
        "wishes": {
            "gpushare.aliyun.com/card-model": ["tesla t4"],
            "gpushare.aliyun.com/card-uuid": ["gpu-a"],
            "gpushare.aliyun.com/same-card": "g",
        },
    }
    assert [card["reason"] for card in found["nodes"][0]["cards"]] == [
        "not where the pods are that it shares a GPU with",
        "not one that the pod wishes for",
    ]


def test_slots_are_shown_if_they_are_counted() -> None:
    """A card may be full of containers."""
    node = lay_out("n", (Device(0, 80, slots=2, slots_used=2), Device(1, 80, slots=2)), [])
    cards = explain(Question(Request(6)), Snapshot({"n": node}), {}, ["n"])["nodes"][0]["cards"]

    assert [(card["slots"], card["freeSlots"], card["reason"]) for card in cards] == [
        (2, 0, "no free slot"),
        (2, 2, ""),
    ]


def test_a_whole_card_and_a_split_say_what_each_card_lacks() -> None:
    """The smallest part of a split is the amount that a card must hold to be of use."""
    whole, split = Wishes(whole=True), Wishes(split=(9, 3))

    assert (
        card_reason(FREE.devices[1], FREE, Question(Request(6, wishes=whole))) == "not exactly as large as the request"
    )
    assert card_reason(FREE.devices[0], FREE, Question(Request(12, wishes=split))) == "too full"
    assert card_reason(FULL.devices[1], FULL, Question(Request(12, wishes=split))) == ""


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


def test_a_node_that_fits_names_no_pods() -> None:
    """The pod needs no other pod's end there, and an explanation states its judgement."""
    found = explain(Question(Request(6)), CLUSTER, {}, ["free"])

    assert not any("roomIfEnded" in card for card in found["nodes"][0]["cards"])
    assert found["judged"].startswith("cards only: nodeSelector,")


def test_nodes_with_most_room_of_a_large_cluster_are_described(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are counted; a question must not hold up schedulers."""
    monkeypatch.setattr(module, "MOST_NODES", 2)
    nodes = {name: lay_out(name, (Device(0, 14, used),), []) for name, used in (("a", 13), ("b", 12), ("c", 11))}
    found = explain(Question(Request(6)), Snapshot(nodes), {}, nodes)

    assert [node["name"] for node in found["nodes"]] == ["c", "b"]
    assert (found["nodesLeftOut"], found["reasons"]) == (1, {wire.REASON_NO_CARD_FITS: 3})


@given(
    st.lists(
        st.builds(
            Device,
            index=st.just(0),
            total=st.integers(0, 9),
            used=st.integers(0, 12),
            healthy=st.booleans(),
            uuid=st.sampled_from(["gpu-a", "gpu-b"]),
        ),
        min_size=1,
        max_size=3,
    ),
    st.integers(1, 10),
    st.sampled_from([Wishes(), Wishes(whole=True), Wishes(uuids=frozenset({"gpu-a"}))]),
)
def test_node_holds_a_pod_exactly_if_a_card_has_no_reason(devices: list[Device], units: int, wishes: Wishes) -> None:
    """The explanation is the decision."""
    cards = tuple(Device(i, d.total, d.used, d.healthy, d.uuid) for i, d in enumerate(devices))
    node, asked = lay_out("n", cards, []), Question(Request(units, wishes=wishes))

    assert any(not card_reason(card, node, asked) for card in cards) == (not reason_against(node, asked))
