"""Promises of gpushare.deviceplugin.core.candidates about the last guard: whatever the API shows, no card is over-filled."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any

import pytest

from gpushare.deviceplugin.core.candidates import Candidate, last_guard, room
from gpushare.deviceplugin.core.holdings import Grant, Holdings
from gpushare.deviceplugin.core.kept_pods import KeptPod
from gpushare.errors import NoCandidateError
from gpushare.model.cards import CardFacts
from tests.gpushare.deviceplugin.core.bound_pod import bound_pod as pod


def card(index: int, units: int = 10, *, healthy: bool = True, reason: str = "") -> CardFacts:
    """A card."""
    return CardFacts(index, f"u{index}", "m", 0, units, healthy=healthy, reason=reason)


def ours(uid: str, index: int, *numbers: int, **more: Any) -> Grant:
    """Ids of a card."""
    ids = {f"{index}-{number}": index for number in numbers}
    return Grant(uid, "c", frozenset(ids), ids, **more)


def candidate(units: int = 4, index: int = 0, **more: bool) -> Candidate:
    """A container that waits."""
    return Candidate("new", "d", "new", "c", units, units, ((index, units),), **more)


OLD = [ours("old", 0, 0)], [pod("old", 7, 0)]
# The candidate, what containers have and the pods, the cards, whether slots count, and the refusal ("": it is let in).
GUARDED: dict[str, tuple[Candidate, tuple[list[Grant], list[KeptPod]], list[CardFacts], bool, str]] = {
    "room": (candidate(), ([], []), [card(0, 4)], False, ""),
    "gone": (candidate(), ([], []), [card(1)], False, "the pod has card 0, which this node does not have"),
    "unhealthy": (
        candidate(), ([], []), [card(0, healthy=False, reason="Xid 48")], False, "card 0 of the pod is unhealthy: Xid 48",
    ),
    "unhealthy without a word": (
        candidate(), ([], []), [card(0, healthy=False)], False, "is unhealthy: no reason given",
    ),
    "too small": (candidate(), ([], []), [card(0, 3)], False, "card 0 has 3 units left for the 4 of the pod"),
    "a guess and the pod's own init container": (
        candidate(), ([ours("new", 0, *range(1, 9)), ours("guess", 0, 2, is_guess=True)], []), [card(0)], False, "",
    ),
    "an id of another": (
        candidate(), ([ours("old", 0, 4)], []), [card(0)], False, "offered the id 0-4, which another container has",
    ),
    "slots: the pod counts with its first container": (candidate(), OLD, [card(0)], True, "3 units left for the 4"),
    "slots: to the unit": (candidate(3), OLD, [card(0)], True, ""),
    "slots: and only once": (candidate(is_begun=True), OLD, [card(0)], True, ""),
    "slots: it counts already": (candidate(is_counted=True), OLD, [card(0)], True, ""),
}  # fmt: skip


@pytest.mark.parametrize(("one", "there", "cards", "slots", "says"), GUARDED.values(), ids=GUARDED.keys())
def test_a_container_is_let_onto_a_card_with_room_alone(
    one: Candidate, there: tuple[list[Grant], list[KeptPod]], cards: list[CardFacts], slots: bool, says: str
) -> None:
    """The guard refuses a card that is gone, unhealthy or full, and an id that a kubelet offers twice, and gives the reason."""
    grants, pods = there
    with pytest.raises(NoCandidateError, match=says) if says else contextlib.nullcontext():
        last_guard(one, ["0-1", "0-2", "0-3", "0-4"], Holdings(grants), pods, cards, counts_slots=slots)


def test_nothing_is_given_beside_what_cannot_be_read() -> None:
    """While a pod of the node cannot be read no container takes units; one with units that are counted goes on."""
    more: dict[str, Any] = {"counts_slots": True, "refusal": "a pod cannot be read"}
    last_guard(candidate(is_begun=True), ["0-0"], Holdings(()), [], [card(0)], **more)
    with pytest.raises(NoCandidateError, match="a pod cannot be read"):
        last_guard(candidate(), ["0-0"], Holdings(()), [], [card(0)], **more)


def test_an_unhealthy_card_and_an_overfull_one_have_no_room() -> None:
    """Never less than none."""
    holdings = Holdings([ours("a", 0, *range(12))])

    assert room(holdings, [], [card(0), card(1, healthy=False), card(2)], counts_slots=False) == Counter({2: 10})
