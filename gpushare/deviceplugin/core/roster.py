"""Which cards a node has, from one count of NVML to the next. Pure.

A lost card stays in NVML's count without its UUID and its memory, so it is recognised by the card that is missing. A
card that is not even counted any more was taken out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpushare.deviceplugin.core.devices import PhysicalCard
from gpushare.model.cards import CardFacts, NodeCards

# NVML's index of a card that was not there since our start.
NO_INDEX = -1


@dataclass(frozen=True, slots=True)
class Roster:
    """``cards`` are shared, those that do not answer (``lost``, by UUID) as they were last seen; ``removed`` are gone."""

    cards: tuple[PhysicalCard, ...] = ()
    lost: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()


def count_cards(
    known: Sequence[PhysicalCard],
    answering: Sequence[PhysicalCard],
    unreadable: Sequence[int],
    withheld: frozenset[str],
) -> Roster:
    """The cards now.

    ``known`` are those before, ``answering`` those that NVML describes now, ``unreadable`` the NVML indices of those that
    it only counts, ``withheld`` UUIDs that answer and are not shared (MIG mode). A known card that is missing is lost if an
    unreadable one can be it, first the one of its index; else it was removed. An unreadable card that cannot be a known one
    is left out.
    """
    seen = {card.uuid for card in answering} | withheld
    missing = [card for card in known if card.uuid not in seen]
    places = list(unreadable)
    by_index = {card.uuid for card in missing if card.nvml_index in places}
    left = len(places) - len(by_index)
    others = [card.uuid for card in missing if card.uuid not in by_index]
    lost = by_index | set(others[: max(left, 0)])
    cards = (*answering, *(card for card in missing if card.uuid in lost))
    removed = frozenset(card.uuid for card in known) - {card.uuid for card in cards}
    return Roster(cards, frozenset(lost), removed)


def remembered(cards: NodeCards | None) -> tuple[PhysicalCard, ...]:
    """The cards of a node annotation of ours, as they were when it was written: all that is known before NVML answers."""
    facts = cards.cards if cards is not None else ()
    return tuple(PhysicalCard(NO_INDEX, card.uuid, card.model, card.mib, card.numa) for card in facts)


def known_cards(
    ever: Iterable[CardFacts], now: NodeCards, physical: Sequence[PhysicalCard], *, keep: bool
) -> tuple[CardFacts, ...]:
    """The cards that were ``ever`` announced and are here; with ``keep`` the others too.

    If two have one index (it was given away in between) it is the one that has it now.
    """
    present, here = {card.uuid for card in now.cards}, {card.uuid for card in physical}
    by_index: dict[int, CardFacts] = {}
    for card in sorted(ever, key=lambda card: card.uuid not in present):
        if keep or card.uuid in here:
            by_index.setdefault(card.index, card)
    return tuple(by_index.values())
