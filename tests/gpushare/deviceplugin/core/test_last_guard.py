"""Promises of gpushare.deviceplugin.core.candidates about the last guard: whatever the API shows, no card is over-filled."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.deviceplugin.core.candidates import Candidate, last_guard, room
from gpushare.deviceplugin.core.holdings import Grant, Holdings
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


@pytest.mark.parametrize(
    ("cards", "says"),
    [
        ([card(1)], "the pod has card 0, which this node does not have"),
        ([card(0, healthy=False, reason="Xid 48")], "card 0 of the pod is unhealthy: Xid 48"),
        ([card(0, healthy=False)], "is unhealthy: no reason given"),
        ([card(0, 3)], "card 0 has 3 units left for the 4 of the pod"),
    ],
    ids=["gone", "unhealthy", "unhealthy without a word", "too small"],
)
def test_a_card_that_is_gone_unhealthy_or_full_takes_no_pod(cards: list[CardFacts], says: str) -> None:
    """The guard refuses a card that is gone, unhealthy or full, and gives the reason."""
    with pytest.raises(NoCandidateError, match=says):
        last_guard(candidate(), ["0-0"], Holdings(()), [], cards, counts_slots=False)


def test_nothing_is_given_beside_what_cannot_be_read() -> None:
    """While a pod of the node cannot be read no container takes units; one with units that are counted goes on."""
    more: dict[str, Any] = {"counts_slots": True, "refusal": "a pod cannot be read"}
    last_guard(candidate(is_begun=True), ["0-0"], Holdings(()), [], [card(0)], **more)
    with pytest.raises(NoCandidateError, match="a pod cannot be read"):
        last_guard(candidate(), ["0-0"], Holdings(()), [], [card(0)], **more)


def test_an_id_that_another_pod_has_is_not_given() -> None:
    """A kubelet may offer it twice; what we only guessed does not count, nor does the pod's own init container."""
    ids = ["0-1", "0-2", "0-3", "0-4"]
    others = [ours("new", 0, *range(1, 9)), ours("guess", 0, 2, is_guess=True)]

    last_guard(candidate(), ids, Holdings(others), [], [card(0)], counts_slots=False)
    assert Holdings(others).taken_besides("new") == set()
    with pytest.raises(NoCandidateError, match="offered the id 0-4, which another container has"):
        last_guard(candidate(), ids, Holdings([ours("old", 0, 4)]), [], [card(0)], counts_slots=False)


def test_pod_counts_with_its_first_container_if_slots_count() -> None:
    """A pod counts with its first container and only once if slots count."""
    pods = [pod("old", 7, 0)]
    holdings = Holdings([ours("old", 0, 0)])

    last_guard(candidate(3), ["0-1"], holdings, pods, [card(0)], counts_slots=True)
    last_guard(candidate(is_begun=True), ["0-1"], holdings, pods, [card(0)], counts_slots=True)
    last_guard(candidate(is_counted=True), ["0-1"], holdings, pods, [card(0)], counts_slots=True)
    with pytest.raises(NoCandidateError, match="3 units left for the 4"):
        last_guard(candidate(), ["0-1"], holdings, pods, [card(0)], counts_slots=True)


def test_an_unhealthy_card_and_an_overfull_one_have_no_room() -> None:
    """Never less than none."""
    holdings = Holdings([ours("a", 0, *range(12))])

    assert room(holdings, [], [card(0), card(1, healthy=False), card(2)], counts_slots=False) == Counter({2: 10})


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 1), st.sampled_from(["ours", "go", "waits"])), max_size=8),
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 1)), max_size=12),
)
def test_no_sequence_of_answers_over_fills_a_card(
    before: list[tuple[int, int, str]], calls: list[tuple[int, int]]
) -> None:
    """Against a model that only adds up: whatever is written, what containers hold stays within the card, or does not grow."""
    cards = [card(0), card(1)]
    pods = [pod(f"p{number}", units, index) for number, (units, index, _) in enumerate(before)]
    grants, held, fresh = [], Counter[int](), 0
    for number, (units, index, kind) in enumerate(before):
        ids = {f"{index}-{fresh + one}": index for one in range(units)} if kind == "ours" else {}
        if kind != "waits":
            names = frozenset(ids) or frozenset(f"go-{fresh + one}" for one in range(units))
            grants.append(Grant(f"p{number}", "c", names, ids))
            held[index] += units
        fresh += units
    for number, (units, index) in enumerate(calls):
        ids = {f"{index}-{fresh + one}": index for one in range(units)}
        fresh += units
        try:
            last_guard(candidate(units, index), list(ids), Holdings(grants), pods, cards, counts_slots=False)
        except NoCandidateError:
            assert held[index] + units > 10
            continue
        held[index] += units
        assert held[index] <= 10
        grants.append(Grant(f"c{number}", "c", frozenset(ids), ids))
