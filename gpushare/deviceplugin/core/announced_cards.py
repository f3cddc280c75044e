"""The cards that a node announces: which there are, by which index pods know each, and which are unhealthy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from gpushare.deviceplugin.core.devices import PhysicalCard, describe_cards
from gpushare.deviceplugin.core.health import CardHealth, Recovery
from gpushare.deviceplugin.core.publication import CardChange, changes_between
from gpushare.deviceplugin.core.roster import known_cards
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
