"""Promises of gpushare.deviceplugin.core.bookings."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import msgspec
import pytest

from gpushare import wire
from gpushare.deviceplugin.core.bookings import allocation_by_book, kept_ids, open_units, pod_cards, why_fixed
from gpushare.deviceplugin.core.devices import DeviceIds
from gpushare.deviceplugin.core.holdings import Entry, Grant, Holdings, lay
from gpushare.deviceplugin.core.kept_pods import KeptPod, keep
from gpushare.deviceplugin.core.repair import PodCard
from gpushare.manifests import PodSpec, PodStatus
from gpushare.model.allocation import Allocation
from gpushare.model.cards import CardFacts
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
