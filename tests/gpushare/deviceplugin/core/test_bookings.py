"""Promises of gpushare.deviceplugin.core.bookings."""

from __future__ import annotations

import functools

import msgspec
import pytest

from gpushare import wire
from gpushare.deviceplugin.core.bookings import (
    allocation_by_book,
    open_units,
    pod_cards,
    why_fixed,
)
from gpushare.deviceplugin.core.holdings import Grant, Holdings
from gpushare.deviceplugin.core.kept_pods import allocation_of, keep
from gpushare.deviceplugin.core.repair import PodCard
from gpushare.manifests import Pod, PodStatus
from gpushare.model.cards import CardFacts
from tests.gpushare.deviceplugin.core.bound_pod import bound_pod

OURS = {"ALIYUN_COM_GPU_MEM_EXTENDER": "gpushare/1"}
SEVERAL = {"scheduler.framework.gpushare.allocation": '{"0":{"0":1,"1":3}}'}


pod = functools.partial(bound_pod, **OURS)


def grant(uid: str, *cards: int, is_guess: bool = False, ids: int = 1) -> Grant:
    """Ids on these cards; on none, ids of another plugin."""
    return Grant(uid, "c", frozenset("x" * ids), {f"{card}x": card for card in cards}, is_guess=is_guess)


def stand(one: Pod, *grants: Grant, repairs: bool = True) -> PodCard:
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
def test_a_pod_stands_where_its_ids_lie(one: Pod, grants: list[Grant], expected: PodCard) -> None:
    """The answer that it got is no ids of its own, but it is known."""
    assert stand(one, *grants) == expected


@pytest.mark.parametrize("wish", wire.CARD_WISHES)
def test_a_pod_that_wishes_for_a_card_keeps_it(wish: str) -> None:
    """The extender chose it for that."""
    one = pod("a", **{wish: "x"})

    assert wish in (why_fixed(one) or "")
    assert not stand(one).may_move


def test_a_pod_of_another_extender_keeps_its_card() -> None:
    """The original's book would go on counting the old one."""
    one = pod("a", ALIYUN_COM_GPU_MEM_EXTENDER="other")

    assert "would not follow" in (why_fixed(one) or "")
    assert not stand(one, grant("a", 1)).may_move


def test_with_repairs_off_no_pod_moves() -> None:
    """An operator's change is kept."""
    assert not stand(pod("a"), repairs=False).may_move


def test_pods_that_are_not_on_one_card_stand_nowhere() -> None:
    """A pod that has ended, asks for nothing, or is on several cards or on none is not among the pods with one card."""
    pods = [pod("a", phase="Failed"), pod("b", 0), pod("c", "1.5"), pod("d", **SEVERAL), pod("e", card=None)]

    assert pod_cards(pods, Holdings(()), repairs=True) == ()
    assert [one is None for one in map(allocation_of, pods)] == [False, True, True, False, True]


def test_what_pods_on_one_card_may_have_is_what_the_others_leave() -> None:
    """Pods on several cards have what is written, pods without a card what they hold; a sick card has nothing."""
    cards = [CardFacts(index, f"u{index}", "m", 0, 10, healthy=index != 2) for index in range(3)]
    pods = [pod("several", **SEVERAL), pod("lost", card=None), pod("ended", phase="Failed", **SEVERAL), pod("one")]

    assert open_units(pods, Holdings([grant("lost", 0)]), cards) == {0: 8, 1: 7}


RAN = {"name": "c", "state": {"terminated": {}}}


def by_book(one: Pod, *grants: Grant, shown: Pod | None = None, **more: bool) -> tuple[tuple[int, int], ...] | None:
    """The shares that the kubelet's records have written."""
    if shown is not None:
        one = keep(shown, keep(one))
    found = allocation_by_book(one, grants, counts_slots=more.get("slots", False))
    return None if found is None else found.shares


def several(uid: str, *ids: tuple[int, int]) -> Grant:
    """So many ids on each card."""
    cards = {f"{card}-{number}": card for card, count in ids for number in range(count)}
    return Grant(uid, "c", frozenset(cards), cards)


@pytest.mark.parametrize(
    ("one", "grants", "shown", "expected"),
    [
        (pod("a", phase="Running"), [grant("a", 0)], None, None),
        (pod("a", phase="Running"), [grant("a", 1)], None, ((1, 4),)),
        (pod("a", phase="Running", card=None), [grant("a", 1)], None, ((1, 4),)),
        (pod("a"), [grant("a", 1)], None, None),
        (pod("a"), [grant("a", 1)], pod("a", card=1), ((1, 4),)),
        (pod("a"), [grant("a", 1, is_guess=True)], None, None),
        (pod("a", phase="Running"), [several("a", (0, 1), (1, 3))], None, ((0, 1), (1, 3))),
        (pod("a", phase="Running", **SEVERAL), [several("a", (0, 1), (1, 3))], None, None),
        (pod("a"), [several("a", (0, 1), (1, 3))], None, None),
    ],
    ids=[
        "as written", "elsewhere", "not written", "held", "put right by hand", "a guess", "several", "several as written",
        "several, held",
    ],
)  # fmt: skip
def test_what_has_run_has_what_was_bound(one: Pod, grants: list[Grant], shown: Pod | None, expected: object) -> None:
    """Whatever its annotations say; a pod that is held for a wrong guess keeps what is written."""
    assert by_book(one, *grants, shown=shown) == expected


def test_the_kubelet_reports_what_has_run() -> None:
    """Container by container while a pod is not running as a whole; slots of several cards say no amounts."""
    one = pod("a")
    one.status = msgspec.convert({"phase": "Pending", "containerStatuses": [RAN]}, PodStatus)
    assert by_book(one, grant("a", 1)) == ((1, 4),)
    assert by_book(one, several("a", (0, 1), (1, 3)), slots=True) is None
    one.status = None
    assert by_book(one, grant("a", 1)) is None
