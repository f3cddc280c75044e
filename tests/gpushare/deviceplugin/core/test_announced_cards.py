"""Promises of gpushare.deviceplugin.core.announced_cards."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gpushare.deviceplugin.core.announced_cards import (
    ENDED,
    NO_INDEX,
    CardChange,
    Health,
    PhysicalCard,
    Roster,
    about_us,
    amounts,
    changes_between,
    count_cards,
    has_left,
    health_of,
    no_cards,
    patch_for,
    remembered,
    report_for,
    shape,
)
from gpushare.manifests import Node, NodeStatus, NodeSystemInfo, ObjectMeta, ReportedNode
from gpushare.model.cards import NOT_SHARED, CardFacts, NodeCards, encode_cards
from gpushare.model.conditions import HEARTBEAT_SECONDS, time_text


def card(name: str, index: int) -> PhysicalCard:
    return PhysicalCard(index, f"GPU-{name}", "Tesla T4", 15360)


A, B, C = card("a", 0), card("b", 1), card("c", 2)
MOVED, OTHER = card("c", 1), card("x", 1)
CASES = {
    "all answer": ((), [A, B], [], "", Roster((A, B))),
    "lost: NVML counts it, and reports nothing of it": ([A, B], [A], [1], "", Roster((A, B), frozenset({"GPU-b"}))),
    "taken out: it is not counted": ([A, B], [A], [], "", Roster((A,), removed=frozenset({"GPU-b"}))),
    "of two the one of the unreadable index is lost": (
        [A, B, C], [A], [2], "", Roster((A, C), frozenset({"GPU-c"}), frozenset({"GPU-b"}))
    ),
    "the indices moved": ([A, B, C], [A, MOVED], [2], "", Roster((A, MOVED, B), frozenset({"GPU-b"}))),
    "exchanged": ([A, B], [A, OTHER], [], "", Roster((A, OTHER), removed=frozenset({"GPU-b"}))),
    "withheld: an unreadable one is another": (
        [A, B, C], [A], [2], "GPU-b", Roster((A, C), frozenset({"GPU-c"}), frozenset({"GPU-b"}))
    ),
    "unreadable and unknown": ([], [A], [1], "", Roster((A,))),
}  # fmt: skip


@pytest.mark.parametrize(("known", "answering", "unreadable", "withheld", "expected"), CASES.values(), ids=CASES.keys())
def test_a_count_shows_which_cards_are_lost_or_gone(
    known: list[PhysicalCard], answering: list[PhysicalCard], unreadable: list[int], withheld: str, expected: Roster
) -> None:
    """A lost card keeps its place, and the same index does not make it the same card."""
    assert count_cards(known, answering, unreadable, frozenset({withheld} - {""})) == expected


def test_what_the_annotation_says_is_known_at_a_start() -> None:
    """A card that was lost before we started keeps its memory, and so its place in the book."""
    cards = NodeCards(1, "ids", "GiB", "b", (CardFacts(3, "GPU-z", "Tesla T4", 15360, 15, numa=1),))
    before = remembered(cards)

    assert before == (PhysicalCard(NO_INDEX, "GPU-z", "Tesla T4", 15360, 1),)
    assert count_cards(before, [A], [1], frozenset()).lost == frozenset({"GPU-z"})
    assert remembered(None) == ()


FIRST, SECOND = CardFacts(0, "GPU-a", "m", 15360, 15), CardFacts(1, "GPU-b", "m", 11264, 11)
CARDS = NodeCards(1, "ids", "GiB", "boot", (FIRST, SECOND))
SLOTS = NodeCards(
    1, "slots", "MiB", "boot", (CardFacts(0, "GPU-a", "m", 100, 100, 4), CardFacts(1, "GPU-b", "m", 50, 50, 4))
)


def node(**capacity: str) -> Node:
    named = {f"aliyun.com/gpu-{name}": amount for name, amount in capacity.items()}
    return Node(ObjectMeta(name="n"), NodeStatus(capacity={"cpu": "8", **named}))


def unhealthy(card: CardFacts, reason: str) -> CardFacts:
    return msgspec.structs.replace(card, healthy=False, reason=reason)


def with_cards(*cards: CardFacts) -> NodeCards:
    return msgspec.structs.replace(CARDS, cards=cards)


@pytest.mark.parametrize(
    ("memory", "is_moving", "count"),
    [
        (None, False, "2"),
        ("0", False, "2"),
        ("26", False, "2"),
        ("30", False, "0"),
        ("15", False, "0"),
        ("26", True, "0"),
    ],
)
def test_count_is_there_when_the_kubelets_sum_is_for_these_cards(
    memory: str | None, is_moving: bool, count: str
) -> None:
    """D14, and worse: total ÷ count over the wrong sum is a wrong size for every card."""
    there = node(mem=memory) if memory is not None else node()

    assert amounts(there, CARDS, is_moving=is_moving) == {"aliyun.com/gpu-count": count}
    # The kubelet counts slots in slots mode, so the sum is ours to write.
    ours = {"aliyun.com/gpu-count": "0" if is_moving else "2", "aliyun.com/gpu-mem": "150"}
    assert amounts(there, SLOTS, is_moving=is_moving) == ours


def test_health_is_no_change_of_shape() -> None:
    """The kubelet's counts stay; index, size and UUID do not."""
    assert shape(with_cards(FIRST, unhealthy(SECOND, "Xid 48"))) == shape(CARDS)
    assert shape(with_cards(FIRST)) != shape(CARDS)
    assert shape(with_cards(FIRST, msgspec.structs.replace(SECOND, index=2))) != shape(CARDS)


SHOWN = node(mem="26", count="2").status or NodeStatus()


OTHERS = NodeStatus(capacity={"cpu": "9", "aliyun.com/gpu-mem": "26", "aliyun.com/gpu-count": "2"})
# A Node that has changed, and whether that is about us.
CHANGED = {
    "what others write": (Node(ObjectMeta(name="n", resource_version="7", labels={"a": "b"}), OTHERS), False),
    "the sum": (node(mem="0", count="2"), True),
    "the count": (node(mem="26"), True),
    "another Node": (Node(ObjectMeta(uid="other"), SHOWN), True),
    "an operator's word": (Node(ObjectMeta(annotations={"gpushare.aliyun.com/recovered": "0"}), SHOWN), True),
    "the cards": (Node(ObjectMeta(annotations={"aliyun.com/gpushare-cards": "{}"}), SHOWN), True),
    "isolation": (Node(ObjectMeta(labels={"cgpu.disable.isolation": "true"}), SHOWN), True),
    "a boot": (Node(ObjectMeta(), msgspec.structs.replace(SHOWN, node_info=NodeSystemInfo(boot_id="two"))), True),
}


@pytest.mark.parametrize(("changed", "is_ours"), CHANGED.values(), ids=CHANGED.keys())
def test_what_we_read_or_write_is_about_us(changed: Node, is_ours: bool) -> None:
    """A kubelet writes its node every few minutes; only what we read or write is a reason to look."""
    assert (about_us(changed) != about_us(node(mem="26", count="2"))) is is_ours
    assert about_us(Node()) == about_us(Node(ObjectMeta(name="n")))


def test_what_fell_ill_recovered_or_went_is_news() -> None:
    """A card that is new and healthy is none, nor one that is as unhealthy as before; without a rule the former reason is named."""
    c, d, e, f = (CardFacts(i, f"GPU-{i}", "m", 1, 1) for i in (2, 3, 4, 6))
    before = with_cards(FIRST, unhealthy(SECOND, "Xid 48"), c, unhealthy(d, "lost"), unhealthy(e, "ConfigMap"))
    new = CardFacts(5, "GPU-5", "m", 1, 1), unhealthy(f, "Xid 79")
    after = with_cards(unhealthy(FIRST, "lost"), SECOND, unhealthy(d, "lost"), e, *new)

    assert changes_between(before, after, {"GPU-b": "an operator's annotation"}, {}) == (
        CardChange(c, False, "taken out of the machine"),
        CardChange(unhealthy(FIRST, "lost"), False, "lost"),
        CardChange(SECOND, True, "an operator's annotation"),
        CardChange(e, True, "no longer: ConfigMap"),
        CardChange(unhealthy(f, "Xid 79"), False, "Xid 79"),
    )


@pytest.mark.parametrize("reason", sorted(NOT_SHARED))
def test_a_card_that_is_not_shared_is_no_unhealthy_one(reason: str) -> None:
    """The change is reported once, whether the card is still shown for a pod or not; its return is none of health."""
    shown, why = with_cards(unhealthy(FIRST, reason), SECOND), {"GPU-a": reason}

    assert changes_between(with_cards(FIRST, SECOND), shown, {}, why) == (
        CardChange(unhealthy(FIRST, reason), False, reason),
    )
    assert changes_between(with_cards(FIRST, SECOND), with_cards(SECOND), {}, why) == (
        CardChange(FIRST, False, reason),
    )
    for after in (shown, with_cards(SECOND), with_cards(FIRST, SECOND)):
        assert changes_between(shown, after, {}, why) == ()
    fallen = with_cards(unhealthy(FIRST, "lost"), SECOND)
    assert changes_between(shown, fallen, {}, {}) == (CardChange(unhealthy(FIRST, "lost"), False, "lost"),)
    taken_out = CardChange(unhealthy(FIRST, reason), False, "taken out of the machine")
    assert changes_between(shown, with_cards(SECOND), {}, {}) == (taken_out,)


def test_one_write_has_annotation_count_and_operators_word() -> None:
    """One patch has the cards, the count and the removal of an operator's word that was acted on. A Node with all gets none."""
    there = node(mem="26", count="2")
    there.metadata.annotations = {"gpushare.aliyun.com/recovered": "0", "aliyun.com/gpushare-cards": "old"}
    patch = patch_for(there, CARDS, "0", is_moving=False)
    wanted = {"aliyun.com/gpu-count": "2"}

    assert patch == {
        "metadata": {
            "annotations": {"aliyun.com/gpushare-cards": encode_cards(CARDS), "gpushare.aliyun.com/recovered": None}
        },
        "status": {"capacity": wanted, "allocatable": wanted},
    }
    other = patch_for(there, CARDS, "1", is_moving=True)
    assert other is not None
    assert other["status"]["capacity"] == {"aliyun.com/gpu-count": "0"}
    assert "gpushare.aliyun.com/recovered" not in other["metadata"]["annotations"]
    there.metadata.annotations = {"aliyun.com/gpushare-cards": encode_cards(CARDS)}
    assert patch_for(there, CARDS, "", is_moving=False) is None
    assert patch_for(Node(), CARDS, "", is_moving=False) is not None


def test_amounts_are_compared_by_value_and_by_presence() -> None:
    """An API server writes 160000 as 160k; an amount of 0 is written if none is there."""
    big = NodeCards(1, "slots", "MiB", "b", (CardFacts(0, "GPU-a", "m", 160_000, 160_000, 4),))
    there = node(mem="160k", count="1")
    there.metadata.annotations = {"aliyun.com/gpushare-cards": encode_cards(big)}
    none = with_cards()
    bare = node()
    bare.metadata.annotations = {"aliyun.com/gpushare-cards": encode_cards(none)}

    assert patch_for(there, big, "", is_moving=False) is None
    assert patch_for(bare, none, "", is_moving=False) is not None


@pytest.mark.parametrize(
    ("here", "in_use", "expected"),
    [({"GPU-a"}, {0}, True), ({"GPU-a"}, {1}, False), ({"GPU-a", "GPU-b"}, set(), False), (set(), {0}, True)],
)
def test_a_card_has_left_once_it_is_away_and_no_pod_names_it(here: set[str], in_use: set[int], expected: bool) -> None:
    """The node shows a card that is not in the machine for as long as a pod names it."""
    assert has_left(CARDS, here, frozenset(in_use)) is expected


HEALTHY = CardFacts(0, "GPU-0", "Tesla T4", 15079, 14)
UNHEALTHY = CardFacts(1, "GPU-1", "Tesla T4", 15079, 14, healthy=False, reason="Xid 79")


def test_condition_names_each_card_and_its_state() -> None:
    """The unhealthy cards come first, with their reasons."""
    unhealthy, healthy = "card 1 (Tesla T4, GPU-1) is unhealthy: Xid 79", "card 0 (Tesla T4, GPU-0) is healthy"

    assert health_of(with_cards(HEALTHY, UNHEALTHY)) == ("False", "CardsUnhealthy", f"{unhealthy}; {healthy}")
    assert health_of(with_cards(HEALTHY)) == ("True", "CardsHealthy", healthy)
    assert health_of(with_cards()) == ("False", "NoCards", "no card is shared")
    # A planned change is no fault.
    mig = {"GPU-2": "in MIG mode"}
    held = msgspec.structs.replace(HEALTHY, index=2, uuid="GPU-2", healthy=False, reason="in MIG mode")
    told = f"{healthy}; card GPU-2 is not shared: in MIG mode"
    assert (
        health_of(with_cards(HEALTHY), mig)
        == health_of(with_cards(HEALTHY, held), mig)
        == ("True", "CardsHealthy", told)
    )
    assert health_of(with_cards(), mig) == (
        "False", "NoCards", "no card is shared; card GPU-2 is not shared: in MIG mode"
    )  # fmt: skip


def test_many_cards_make_no_endless_message() -> None:
    """It is for people."""
    assert len(health_of(with_cards(*[UNHEALTHY] * 128)).message) == len(no_cards("x" * 10_000).message) == 4096


def condition(health: Health, at: int, since: int | None = None, name: str = "GPUShareHealthy") -> dict[str, str]:
    """A condition as it is written at a time, with its status since another."""
    times = {"lastHeartbeatTime": time_text(at), "lastTransitionTime": time_text(at if since is None else since)}
    return {"type": name, "status": health.status, "reason": health.reason, "message": health.message, **times}


def shown(*conditions: dict[str, str], overuse: str = "") -> ReportedNode:
    """A Node that has these."""
    annotations = {OVERUSE: overuse} if overuse else None
    document = {"metadata": {"annotations": annotations}, "status": {"conditions": conditions}}
    return msgspec.convert(document, ReportedNode)


def writes(*conditions: dict[str, str]) -> dict[str, Any]:
    """The patch of these conditions alone."""
    return {"status": {"conditions": [*conditions]}}


OVERUSE, LIMITS, LATE, BEAT = "aliyun.com/gpushare-overuse", "GPUShareMemoryLimits", 10**9, int(HEARTBEAT_SECONDS)
GOOD, OTHER_WORDS, TOO_OLD = Health("True", "A", "x"), Health("True", "B", "y"), Health("False", "DriverTooOld", "R615")
THERE, OF_LIMITS = condition(GOOD, 100), condition(TOO_OLD, 100, name=LIMITS)
# The Node, what it should show of health, overuse and limits, the time, and the patch.
REPORTS: dict[str, tuple[ReportedNode, Health, str, Health | None, int, dict[str, Any] | None]] = {
    "nothing is there": (ReportedNode(), GOOD, "", None, 100, writes(THERE)),
    "all is there": (shown(THERE), GOOD, "", None, 99 + BEAT, None),
    "a heartbeat keeps the time of the status": (
        shown(THERE), GOOD, "", None, 100 + BEAT, writes(condition(GOOD, 100 + BEAT, 100)),
    ),
    "other words keep it": (shown(THERE), OTHER_WORDS, "", None, 200, writes(condition(OTHER_WORDS, 200, 100))),
    "another status has a new one": (shown(THERE), ENDED, "", None, 200, writes(condition(ENDED, 200))),
    "the status has no time": (
        shown(THERE | {"lastTransitionTime": ""}), OTHER_WORDS, "", None, 200, writes(condition(OTHER_WORDS, 200)),
    ),
    "the heartbeat is of the far future": (
        shown(condition(GOOD, LATE)), GOOD, "", None, LATE - BEAT,
        writes(condition(GOOD, LATE - BEAT, LATE)),
    ),
    "of the near one": (shown(condition(GOOD, LATE)), GOOD, "", None, LATE - BEAT + 1, None),
    "it cannot be read": (
        shown(THERE | {"lastHeartbeatTime": "soon"}), GOOD, "", None, 200, writes(condition(GOOD, 200, 100)),
    ),
    "a pod overuses": (shown(THERE), GOOD, "[1]", None, 101, {"metadata": {"annotations": {OVERUSE: "[1]"}}}),
    "it goes on": (shown(THERE, overuse="[1]"), GOOD, "[1]", None, 101, None),
    "no pod overuses": (
        shown(THERE, overuse="[1]"), GOOD, "", None, 101, {"metadata": {"annotations": {OVERUSE: None}}},
    ),
    "limits are on": (shown(THERE), GOOD, "", TOO_OLD, 100, writes(OF_LIMITS)),
    "they stay": (shown(THERE, OF_LIMITS), GOOD, "", TOO_OLD, 101, None),
    "a plugin limits nothing": (
        shown(THERE, OF_LIMITS), GOOD, "", None, 101, writes({"type": LIMITS, "$patch": "delete"}),
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("node", "health", "overuse", "limits", "now", "expected"), REPORTS.values(), ids=REPORTS.keys()
)
def test_report_writes_what_differs_and_the_heartbeat(
    node: ReportedNode, health: Health, overuse: str, limits: Health | None, now: int, expected: dict[str, Any] | None
) -> None:
    """Conditions and the overuse annotation; a clock that went back does not end the heartbeat."""
    assert report_for(node, health, overuse, now, limits) == expected
