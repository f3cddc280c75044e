"""Promises of gpushare.deviceplugin.core.roster."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.deviceplugin.core.announced_cards import (
    NO_INDEX,
    PhysicalCard,
    Roster,
    count_cards,
    describe_cards,
    known_cards,
    remembered,
)
from gpushare.model.cards import CardFacts, NodeCards, read_cards
from gpushare.model.quantity import MemoryUnit


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


def test_an_index_belongs_to_the_card_that_has_it_now() -> None:
    """The indices of the cards that ever had them; an absent card is kept only on demand (slots mode counts it on)."""
    facts = {name: CardFacts(index, f"GPU-{name}", "m", 1, 1) for name, index in (("a", 0), ("b", 1), ("x", 0))}
    now = NodeCards(1, "ids", "GiB", "b", (facts["x"], facts["b"]))
    ever = [facts["a"], facts["b"], facts["x"]]

    assert known_cards(ever, now, [A, B, card("x", 0)], keep=False) == (facts["b"], facts["x"])
    assert known_cards(ever, now, [A], keep=False) == (facts["a"],)
    assert known_cards(ever, now, [], keep=True) == (facts["b"], facts["x"])


@given(
    known=st.sets(st.integers(0, 7)),
    answering=st.sets(st.integers(0, 9)),
    unreadable=st.sets(st.integers(0, 9)),
)
def test_every_known_card_is_shared_or_gone(known: set[int], answering: set[int], unreadable: set[int]) -> None:
    """No card twice, none of those that answer left out, no more lost than NVML counts."""
    cards = {number: card(str(number), number) for number in range(10)}
    roster = count_cards([cards[n] for n in known], [cards[n] for n in answering], sorted(unreadable), frozenset())

    uuids = [one.uuid for one in roster.cards]
    assert len(uuids) == len(set(uuids))
    assert {cards[n].uuid for n in answering} <= set(uuids)
    assert {cards[n].uuid for n in known} <= set(uuids) | roster.removed
    assert len(roster.lost) <= len(unreadable)
    assert not roster.lost & roster.removed


def test_a_rollback_keeps_each_cards_index() -> None:
    """A plugin that was rolled back finds the indices in the annotation of the later one, and swaps none."""
    later = '{"v":2,"cards":[{"index":1,"uuid":"GPU-a","model":{"name":"T4"}},{"index":0,"uuid":"GPU-b"}]}'
    known = read_cards(later).cards

    assert {card.uuid for card in remembered(known)} == {"GPU-a", "GPU-b"}
    described = describe_cards([A, B], MemoryUnit.parse("GiB"), "boot", known)
    assert {card.uuid: card.index for card in described.cards} == {"GPU-a": 1, "GPU-b": 0}
