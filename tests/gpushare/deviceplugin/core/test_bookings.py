"""Promises of gpushare.deviceplugin.core.bookings."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import msgspec
import pytest

from gpushare import wire
from gpushare.deviceplugin.core.announced_cards import PhysicalCard, describe_cards
from gpushare.deviceplugin.core.bookings import (
    advice,
    allocation_by_book,
    kept_ids,
    open_units,
    pod_cards,
    pods_of_other_units,
    unit_before,
    why_fixed,
)
from gpushare.deviceplugin.core.devices import DeviceIds
from gpushare.deviceplugin.core.holdings import Entry, Grant, Holdings, lay
from gpushare.deviceplugin.core.kept_pods import KeptPod, keep
from gpushare.deviceplugin.core.repair import PodCard
from gpushare.manifests import Node, NodeStatus, ObjectMeta, PodSpec, PodStatus
from gpushare.model.allocation import Allocation
from gpushare.model.cards import CardFacts, NodeCards, encode_cards
from gpushare.model.quantity import MemoryUnit
from tests.gpushare.deviceplugin.core.bound_pod import bound_pod

OURS = {"ALIYUN_COM_GPU_MEM_EXTENDER": "gpushare/1"}
SEVERAL = {"scheduler.framework.gpushare.allocation": '{"0":{"0":1,"1":3}}'}


pod = functools.partial(bound_pod, **OURS)


def grant(uid: str, *cards: int, is_guess: bool = False, ids: int = 1) -> Grant:
    """Ids on these cards; on none, ids of another plugin."""
    return Grant(uid, "c", frozenset("x" * ids), {f"{card}x": card for card in cards}, is_guess=is_guess)


def stand(one: KeptPod, *grants: Grant, repairs: bool = True) -> PodCard:
    """How one pod stands."""
    (found,) = pod_cards([one], Holdings(grants), repairs=repairs)
    return found


@pytest.mark.parametrize(
    ("one", "grants", "expected"),
    [
        (pod("a"), [], PodCard("a", 4, 0, None)),
        (pod("a"), [grant("a", 1)], PodCard("a", 4, 0, 1)),
        (pod("a"), [grant("a")], PodCard("a", 4, 0, 0)),
        (pod("a"), [grant("a", 0, 1)], PodCard("a", 4, 0, 0, may_move=False)),
        (pod("a", phase="Running"), [], PodCard("a", 4, 0, 0)),
        (pod("a", ALIYUN_COM_GPU_MEM_REPAIR="1"), [], PodCard("a", 4, 0, None, mark=1)),
        (pod("a"), [grant("a", 0, is_guess=True)], PodCard("a", 4, 0, None, answered=0)),
        (pod("a"), [grant("a", 1, is_guess=True)], PodCard("a", 4, 0, None, answered=1)),
    ],
    ids=["waits", "has ids", "ids of another", "on two cards", "ran before", "marked", "guessed here", "guessed there"],
)
def test_a_pod_stands_where_its_ids_lie(one: KeptPod, grants: list[Grant], expected: PodCard) -> None:
    """The answer that it got is no ids of its own, but it is known."""
    assert stand(one, *grants) == expected


@pytest.mark.parametrize(
    ("one", "why"),
    [
        *((pod("a", **{wish: "x"}), wish) for wish in wire.CARD_WISHES),
        (
            pod("a", ALIYUN_COM_GPU_MEM_EXTENDER="other"),
            "the extender that bound it would not follow a change of its card",
        ),
    ],
)
def test_a_pod_with_a_wish_or_of_another_extender_keeps_its_card(one: KeptPod, why: str) -> None:
    """The extender chose the card for the wish, and the original's book would go on counting the old one."""
    found = why_fixed(one) or ""

    assert (found == why) if "extender" in why else (why in found)
    assert not stand(one, grant("a", 1)).may_move
    assert not stand(pod("a"), repairs=False).may_move, "an operator's change is kept"


def test_pods_that_are_not_on_one_card_stand_nowhere() -> None:
    """A pod that asks for nothing, or is on several cards or on none is not among the pods with one card."""
    pods = [pod("b", 0), pod("c", "1.5"), pod("d", **SEVERAL), pod("e", card=None)]

    assert pod_cards(pods, Holdings(()), repairs=True) == ()
    assert [one.allocation is None for one in pods] == [True, True, False, True]


def test_what_pods_on_one_card_may_have_is_what_the_others_leave() -> None:
    """Pods on several cards have what is written, pods without a card what they hold; an unhealthy card has nothing."""
    cards = [CardFacts(index, f"u{index}", "m", 0, 10, healthy=index != 2) for index in range(3)]
    pods = [pod("several", **SEVERAL), pod("lost", card=None), pod("one")]

    assert open_units(pods, Holdings([grant("lost", 0)]), cards) == {0: 8, 1: 7}
    assert open_units(pods, Holdings([several("lost", (0, 10))]), cards) == {0: 0, 1: 7}


RAN = {"name": "c", "state": {"terminated": {}}}
ASKED = [("c", 4), ("d", 2)]


def by_book(one: KeptPod, *grants: Grant, shown: KeptPod | None = None, **more: bool) -> Allocation | None:
    """The cards that the kubelet's records have written."""
    one = keep(one if shown is None else shown, keep(one))
    return allocation_by_book(one, grants, counts_slots=more.get("slots", False))


def several(uid: str, *ids: tuple[int, int], container: str = "c") -> Grant:
    """So many ids on each card."""
    cards = {f"{card}-{number}": card for card, count in ids for number in range(count)}
    return Grant(uid, container, frozenset(cards), cards)


LET_IN, NOT_LET_IN = (Allocation(((1, 4),), assigned=assigned) for assigned in (True, False))


@pytest.mark.parametrize(
    ("one", "grants", "shown", "expected"),
    [
        (pod("a", phase="Running"), [grant("a", 0)], None, None),
        (pod("a", phase="Running"), [grant("a", 1)], None, LET_IN),
        (pod("a", phase="Running", card=None), [grant("a", 1)], None, LET_IN),
        (pod("a"), [grant("a", 1)], None, None),
        (pod("a"), [grant("a", 1)], pod("a", card=1), NOT_LET_IN),
        (pod("a"), [grant("a", 1)], pod("a", card=None), None),
        (pod("a", phase="Running"), [grant("a", 1, is_guess=True)], None, None),
        (pod("a", phase="Running", **SEVERAL), [several("a", (0, 1), (1, 3))], None, None),
        (pod("a"), [several("a", (0, 1), (1, 3))], None, None),
    ],
    ids=[
        "as written", "elsewhere", "not written", "held", "written by hand", "struck out, held", "a guess",
        "several as written", "several, held",
    ],
)  # fmt: skip
def test_what_has_run_has_what_was_bound(
    one: KeptPod, grants: list[Grant], shown: KeptPod | None, expected: object
) -> None:
    """Whatever its annotations say; a pod that is held for a wrong guess keeps what is written."""
    assert by_book(one, *grants, shown=shown) == expected


def test_the_kubelet_reports_what_has_run() -> None:
    """Container by container while a pod is not running as a whole; slots of several cards say no amounts."""
    one = pod("a")
    one.status = msgspec.convert({"phase": "Pending", "containerStatuses": [RAN]}, PodStatus)
    assert by_book(one, grant("a", 1)) == NOT_LET_IN
    assert by_book(one, several("a", (0, 1), (1, 3)), slots=True) is None
    one.status = None
    assert by_book(one, grant("a", 1)) is None


def test_cards_of_a_pod_on_several_count_once_all_have_run() -> None:
    """A container that is held, waits or has no ids yet may still get another card."""
    one, other = several("a", (0, 1), (1, 3)), several("a", (1, 2), container="d")
    two = pod("a")
    two.spec = msgspec.convert(
        {
            "containers": [
                {"name": name, "resources": {"limits": {"aliyun.com/gpu-mem": units}}} for name, units in ASKED
            ]
        },
        PodSpec,
    )
    found = []
    for state in (None, {"waiting": {}}, {"terminated": {}}):
        statuses = [RAN, {"name": "d", "state": state}]
        two.status = msgspec.convert({"phase": "Pending", "containerStatuses": statuses}, PodStatus)
        found += [by_book(two, one), by_book(two, one, other)]

    by_container = {0: ((0, 1), (1, 3)), 1: ((1, 2),)}
    assert found == [None] * 5 + [Allocation(((0, 1), (1, 5)), assigned=True, by_container=by_container)]


def line(uid: str, *ids: str, container: str = "c", resource: str = wire.RESOURCE_MEMORY) -> Entry:
    """A line of the kubelet's records."""
    return Entry(container, frozenset(ids), uid, resource=resource)


def kept(entries: Sequence[Entry], *pods: KeptPod, slots: int = 0, guesses: Sequence[Grant] = ()) -> set[str]:
    """The kept ids, over an unhealthy card 0 and a healthy card 1 of four ids each."""
    cards = [CardFacts(index, f"GPU-{index}", "m", 4, 4, slots, healthy=index == 1) for index in range(2)]
    known = {one.metadata.uid: one for one in pods}
    cards_of = DeviceIds(cards).cards_of
    resource = wire.RESOURCE_SLOT if slots else wire.RESOURCE_MEMORY
    holdings = lay(entries, guesses, lambda one: known.get(one.uid), cards_of, resource=resource)
    return set(kept_ids(holdings, pods, cards, counts_slots=bool(slots)))


LINES = [
    line("a", "gs-0-0", "gs-0-1", container="init"),
    line("a", "gs-0-1"),
    line("b", "gs-1-0"),
    line("gone", "gs-0-3"),
]
STARTED = pod("lost", 2, card=0, phase="Running")
KEPT: dict[str, tuple[list[Entry], list[KeptPod], set[str]]] = {
    "of pods that are there, of the unhealthy card": (
        LINES, [pod("a"), pod("b", card=1)], {"gs-0-0", "gs-0-1"},
    ),
    "of no pod": ([], [pod("a")], set()),
    "where they lie: the annotation may follow later": (
        [line("a", "gs-0-3"), line("b", "gs-1-0")], [pod("a", card=1), pod("b", card=0)], {"gs-0-3"},
    ),
    # A pod of the Go plugin, or one that the kubelet has lost, counts in the scheduler's sum too: never more than there are.
    "free ones for units without an id of ours": (
        [line("a", "gs-0-0"), line("go", "g1")], [pod("a"), pod("go", 1, card=0)], {"gs-0-0", "gs-0-1"},
    ),
    "free ones for a pod that the kubelet has lost": (
        [line("a", "gs-0-3")], [pod("a"), STARTED], {"gs-0-3", "gs-0-0", "gs-0-1"},
    ),
    "no more than there are": ([], [pod("huge", 9, card=0, phase="Running")], {f"gs-0-{one}" for one in range(4)}),
}  # fmt: skip


@pytest.mark.parametrize(("entries", "pods", "expected"), KEPT.values(), ids=KEPT.keys())
def test_ids_that_count_for_pods_on_an_unhealthy_card_are_kept(
    entries: list[Entry], pods: list[KeptPod], expected: set[str]
) -> None:
    """Ids of a healthy card need no keeping; the kubelet and the scheduler count the ids and not the annotation."""
    assert kept(entries, *pods) == expected


def test_slots_that_containers_hold_are_kept() -> None:
    """In slots mode an id is a container, however much memory the pod asks for; answered ids come before the records have them."""
    guess = Grant("a", "c", frozenset({"gs-0-2"}), {"gs-0-2": 0}, is_guess=True)
    assert kept([], pod("a"), guesses=[guess]) == {"gs-0-2"}
    entries = [line("a", "gs-0-1", resource=wire.RESOURCE_SLOT), line("b", "gs-1-1", resource=wire.RESOURCE_SLOT)]

    assert kept(entries, pod("a", 4, card=0), pod("b", 1, card=1), slots=4) == {"gs-0-1"}


GIB, MIB, QUARTER = MemoryUnit(1024), MemoryUnit(1), MemoryUnit(256)


def cards_in(unit: MemoryUnit, *, slots: int = 0) -> NodeCards:
    """A T4 and a GTX 1080 Ti, announced in this unit."""
    physical = [PhysicalCard(0, "GPU-aaaaaaaa", "T4", 15360), PhysicalCard(1, "GPU-bbbbbbbb", "1080 Ti", 11264)]
    return describe_cards(physical, unit, "boot", slots=slots)


def node_of(cards: NodeCards | None, memory: int | None = None) -> Node:
    """The node as a plugin left it; ``memory`` is another sum than that of the cards."""
    total = sum(card.units for card in cards.cards) if cards is not None else 0
    annotations = {} if cards is None else {wire.ANNOTATION_CARDS: encode_cards(cards)}
    shown = total if memory is None else memory
    return Node(ObjectMeta("n", annotations=annotations), NodeStatus(capacity={wire.RESOURCE_MEMORY: shown}))


def pod_of_size(name: str, size: int | None, *, index: str | None = "0", phase: str = "Running") -> KeptPod:
    """A pod of three units; ``size`` is how many its card had when it was bound."""
    written = {} if size is None else {wire.ANNOTATION_DEVICE_UNITS: str(size)}
    return bound_pod(name, 3, index, phase, **written)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (node_of(cards_in(GIB)), GIB),
        (node_of(cards_in(QUARTER)), QUARTER),
        (node_of(cards_in(MIB, slots=4)), MIB),
        (node_of(cards_in(GIB), memory=0), GIB),
        (node_of(cards_in(GIB), memory=26624), None),
        (node_of(None), None),
        (node_of(msgspec.structs.replace(cards_in(GIB), unit="ells")), None),
    ],
    ids=["GiB", "256MiB", "slots", "no plugin serves it", "the Go plugin's MiB", "never ours", "no unit"],
)
def test_the_former_unit_is_that_of_our_last_plugin(node: Node, expected: MemoryUnit | None) -> None:
    """An annotation that the node's sum contradicts was left behind by an earlier plugin."""
    assert unit_before(node) == expected


@pytest.mark.parametrize(
    ("now", "before", "size", "is_other"),
    [
        (MIB, GIB, 15, True),
        (GIB, MIB, 15360, True),
        (GIB, QUARTER, 60, True),
        (QUARTER, GIB, 15, True),
        (MIB, QUARTER, 60, True),
        (GIB, GIB, 15, False),
        (QUARTER, QUARTER, 58, False),
        (MIB, None, 15, True),
        (GIB, None, 15360, True),
        (QUARTER, None, 15, True),
        (QUARTER, None, 60, False),
        (GIB, None, 13, False),
        (MIB, None, None, False),
        (MIB, GIB, None, True),
    ],
)
def test_pods_of_another_unit_are_found(
    now: MemoryUnit, before: MemoryUnit | None, size: int | None, is_other: bool
) -> None:
    """In every direction, by our last plugin's unit or by the card's size; a mean size of the Go extender is no other unit."""
    found = pods_of_other_units([pod_of_size("a", size)], cards_in(now), before)

    assert bool(found) is is_other


def test_a_pod_that_has_no_card_yet_is_not_waited_for() -> None:
    """A pod that was not given a card yet has no memory of the former unit."""
    found = pods_of_other_units(
        [pod_of_size("a", None, index=None, phase="Pending"), pod_of_size("b", 15)], cards_in(MIB), GIB
    )

    assert [one.metadata.uid for one in found] == ["b"]


def test_a_started_pod_without_a_readable_card_is_waited_for() -> None:
    """A started pod without a readable card is waited for, because its containers hold memory on some card."""
    started = (pod_of_size("a", 15, index="x"),)

    assert pods_of_other_units(started, cards_in(MIB), GIB) == started
    assert pods_of_other_units(started, cards_in(MIB), None) == ()


@pytest.mark.parametrize(
    ("count", "before", "expected"),
    [
        (1, GIB, ["in GiB (1: d/p0)", "not served in MiB", "Drain", "--memory-unit"]),
        (5, GIB, ["(5: d/p0, d/p1, d/p2, d/p3, d/p4)"]),
        (7, None, ["in another unit (7: d/p0, d/p1, d/p2, d/p3, d/p4 and 2 more)"]),
        (0, GIB, []),
    ],
)
def test_the_advice_names_the_pods_and_the_ways_out(count: int, before: MemoryUnit | None, expected: list[str]) -> None:
    """The reason names five pods at most, both units, and what to do; without pods there is none."""
    text = advice([pod_of_size(f"p{number}", 15) for number in range(count)], "MiB", before)

    assert bool(text) is bool(expected)
    assert [words for words in expected if words not in text] == []
