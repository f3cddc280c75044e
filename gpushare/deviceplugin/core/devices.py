"""From cards to the fake devices that a kubelet counts: indices, ids, and how many of them it can take. Pure.

A fake device is one memory unit of one card; in slots mode it is room for one container on the card, whose memory is
then an amount of the node that no ids stand for. Its id names the card by the beginning of the card's UUID, so whatever
asks about an id later (after a restart of the plugin, of the kubelet, of the machine) gets the same card without any
state of ours. The prefix belongs to us alone: kubelets of 1.36 look an id's owner up over all resources
(kubernetes#140323).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from gpushare.model.cards import CARDS_VERSION, MODE_IDS, MODE_SLOTS, REASON_TAKEN_OUT, CardFacts, NodeCards
from gpushare.model.quantity import MemoryUnit

HEALTHY: Final = "Healthy"
UNHEALTHY: Final = "Unhealthy"
_PREFIX: Final = "gs-"
# Characters of a UUID in an id: one pair in 2^32 would share eight.
_SHORT: Final = 8
# The most spare slots of a node in ids mode: four a pod on a kubelet with its usual 110 pods, and a list of 12 kB.
_MOST_SPARE_SLOTS: Final = 512
_EXACT: Final = MemoryUnit(1)


@dataclass(frozen=True, slots=True)
class PhysicalCard:
    """One card by NVML: its own index, its memory in MiB (1024² bytes), its NUMA node (0 if unknown)."""

    nvml_index: int
    uuid: str
    model: str
    mib: int
    numa: int = 0


def describe_cards(
    physical: Sequence[PhysicalCard],
    unit: MemoryUnit,
    boot: str,
    known: NodeCards | None = None,
    in_use: frozenset[int] = frozenset(),
    *,
    slots: int = 0,
) -> NodeCards:
    """The node annotation for these cards; with ``slots`` a card in slots mode, whose unit is always MiB.

    A card keeps the index that ``known`` (the annotation before) gave its UUID. A new card gets the lowest index that
    no known card has and that no pod of the node names (``in_use``): an index never silently becomes another card
    under a pod. In slots mode a known card that was taken out while a pod names it stays, sick: the amount of the node
    must not fall below what its pods ask for.
    """
    before = {card.uuid: card.index for card in known.cards} if known else {}
    present = {card.uuid: before[card.uuid] for card in physical if card.uuid in before}
    taken = set(present.values()) | (in_use if known else frozenset())
    free = (index for index in range(len(physical) + len(taken)) if index not in taken)
    indices = {card.uuid: present[card.uuid] if card.uuid in present else next(free) for card in physical}
    unit = _EXACT if slots else unit
    facts = [
        CardFacts(indices[card.uuid], card.uuid, card.model, card.mib, unit.units_of(card.mib), slots, numa=card.numa)
        for card in physical
    ]
    if slots and known:
        missed = in_use - set(indices.values())
        missing = (card for card in known.cards if card.slots and card.uuid not in indices)
        facts += [_taken_out(card) for card in missing if card.index in missed]
    mode = MODE_SLOTS if slots else MODE_IDS
    return NodeCards(CARDS_VERSION, mode, str(unit), boot, tuple(sorted(facts, key=lambda card: card.index)))


def _taken_out(card: CardFacts) -> CardFacts:
    return msgspec.structs.replace(card, healthy=False, reason=REASON_TAKEN_OUT)


def short_names(uuids: Iterable[str]) -> dict[str, str]:
    """For each UUID the shortest beginning, from eight hex digits on, that no other of them has."""
    digits = {uuid: re.sub(r"[^0-9a-z]", "", uuid.lower().removeprefix("gpu-")) for uuid in uuids}
    for length in (_SHORT, 2 * _SHORT):
        names = {uuid: text[:length] for uuid, text in digits.items()}
        if len(set(names.values())) == len(names):
            return names
    return digits


class DeviceIds:
    """The ids of a node's cards. Lists and answers are in the cards' order, then by number."""

    def __init__(self, cards: Sequence[CardFacts]) -> None:
        self._names = short_names(card.uuid for card in cards)
        self._cards = {self._names[card.uuid]: card for card in cards}

    def of_card(self, card: CardFacts) -> list[str]:
        """One id for each unit of the card, or for each slot of it."""
        prefix = self.prefix_of(card)
        return [f"{prefix}{number}" for number in range(id_count(card))]

    def prefix_of(self, card: CardFacts) -> str:
        """The prefix of the ids of a card; a number follows."""
        return f"{_PREFIX}{self._names[card.uuid]}-"

    def card_of(self, device_id: str) -> CardFacts | None:
        """The card of an id, or None for an id that is none of ours (the Go plugin's, or of a card that is gone)."""
        name, _, _ = device_id.removeprefix(_PREFIX).partition("-")
        return self._cards.get(name) if device_id.startswith(_PREFIX) else None

    def one_card_of(self, device_ids: Iterable[str]) -> CardFacts | None:
        """The card on which all these ids lie, or None if that is not one card of ours."""
        cards = {card.uuid if card else "": card for card in map(self.card_of, device_ids)}
        return next(iter(cards.values())) if len(cards) == 1 else None


def id_count(card: CardFacts) -> int:
    """How many ids a card has: its slots in slots mode, its units else."""
    return card.slots or card.units


def device_list(cards: Sequence[CardFacts]) -> list[tuple[str, str]]:
    """``(id, health)`` of every id of every card; all ids of a card share its health."""
    ids = DeviceIds(cards)
    return [(device_id, HEALTHY if card.healthy else UNHEALTHY) for card in cards for device_id in ids.of_card(card)]


def spare_slots(cards: Sequence[CardFacts]) -> list[tuple[str, str]]:
    """``(id, health)`` of the slots that a node in ids mode offers so that pods which name one can come to it too.

    They stand for nothing and lie on no card; each container that asks for a slot asks for a unit of memory at least.
    """
    count = min(sum(card.units for card in cards), _MOST_SPARE_SLOTS)
    return [(f"{_PREFIX}any-{number}", HEALTHY) for number in range(count)]
