"""The cards that a node announces: which there are, by which index pods know each, and which are unhealthy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from gpushare.deviceplugin.core.devices import PhysicalCard, describe_cards
from gpushare.deviceplugin.core.health import CardHealth, Recovery
from gpushare.deviceplugin.core.publication import CardChange, changes_between
from gpushare.model.cards import CardFacts, NodeCards
from gpushare.model.quantity import MemoryUnit


class AnnouncedCards:
    """Empty until ``adopt``. ``boot`` is the id of the machine's present boot; ``slots`` is a card's slots, 0 in ids mode."""

    def __init__(
        self, physical: Sequence[PhysicalCard], unit: MemoryUnit, boot: str, health: CardHealth, slots: int
    ) -> None:
        self.cards = describe_cards((), unit, boot, slots=slots)
        self.physical = tuple(physical)
        self.nvml_indices: Mapping[str, int] = {}
        self._unit = unit
        self._boot = boot
        self._health = health
        self._slots = slots
        # UUIDs of the last count: an announced card that is not among them is absent, even if the Node is not yet written.
        self._counted = uuids_of(physical)
        # The index that each card ever had: one that comes back gets its own again, if no other card has it.
        self._facts: dict[str, CardFacts] = {}

    def restore(self, known: NodeCards | None) -> None:
        """Take indices and illnesses from what the Node announced before our start."""
        if known is not None:
            self._health.restore(known)
            self._facts = {card.uuid: card for card in known.cards}

    def count(self, physical: Iterable[PhysicalCard]) -> None:
        """These cards are in the machine now; announced ones that are missing count as absent from now on."""
        self._counted = uuids_of(physical)

    def describe(self, physical: Sequence[PhysicalCard], in_use: frozenset[int]) -> NodeCards:
        """The announcement of these cards: each keeps its index; a new card gets one that no pod (``in_use``) names."""
        before = known_cards(self._facts.values(), self.cards, physical, keep=bool(self._slots))
        known = msgspec.structs.replace(self.cards, cards=before) if self._facts else None
        cards = describe_cards(physical, self._unit, self._boot, known, in_use, slots=self._slots)
        return self._health.applied(cards, self._absent(cards, physical))

    def adopt(self, physical: tuple[PhysicalCard, ...], in_use: frozenset[int]) -> tuple[CardChange, ...] | None:
        """Announce these cards from now on; the changes of health by that, None if the announcement is as before."""
        self.physical = physical
        self.nvml_indices = {card.uuid: card.nvml_index for card in physical}
        cards = self.describe(physical, in_use)
        self._facts |= {card.uuid: card for card in cards.cards}
        return self._show(cards, {})

    def apply_health(self, recoveries: Iterable[Recovery]) -> tuple[CardChange, ...] | None:
        """Announce the present health of each card; the changes, None if the announcement is as before."""
        rules = {recovery.uuid: recovery.rule for recovery in recoveries}
        return self._show(self._health.applied(self.cards, self._absent(self.cards, self.physical)), rules)

    def _absent(self, cards: NodeCards, physical: Iterable[PhysicalCard]) -> frozenset[str]:
        """The cards that are not in the machine, or not yet: a card's NVML index is known once it is adopted."""
        return uuids_of(cards.cards) - (self._counted & uuids_of(physical))

    def _show(self, cards: NodeCards, rules: Mapping[str, str]) -> tuple[CardChange, ...] | None:
        before, self.cards = self.cards, cards
        return None if before == cards else changes_between(before, cards, rules)


def uuids_of(cards: Iterable[PhysicalCard | CardFacts]) -> frozenset[str]:
    """The UUIDs of the cards."""
    return frozenset(card.uuid for card in cards)


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
