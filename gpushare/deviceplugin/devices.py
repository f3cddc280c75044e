"""From cards to the fake devices that a kubelet counts: indices, ids, and how many of them it can take. Pure.

A fake device is one memory unit of one card. Its id says the card by the beginning of the card's UUID, so whatever
asks about an id later (after a restart of the plugin, of the kubelet, of the machine) gets the same card without any
state of ours. The prefix belongs to us alone: kubelets of 1.36 look an id's owner up over all resources
(kubernetes#140323).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpushare import wire
from gpushare.errors import TooManyIdsError
from gpushare.model.node import CARDS_VERSION, CardFacts, NodeCards
from gpushare.model.quantity import MIB_PER_GIB, MemoryUnit

HEALTHY: Final = "Healthy"
UNHEALTHY: Final = "Unhealthy"
_PREFIX: Final = "gs-"
# Characters of a UUID in an id: one pair in 2^32 would share eight.
_SHORT: Final = 8
# The first kubelet that looks every new id up in the allocations of all pods, under its lock.
_SLOW_LOOKUP_SINCE: Final = (1, 36)
# Ids that such a kubelet takes in about a second.
DEFAULT_MAX_IDS: Final = 4000


@dataclass(frozen=True, slots=True)
class PhysicalCard:
    """What NVML says of one card: its own index, its memory in MiB (1024² bytes), its NUMA node (0 if unknown)."""

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
) -> NodeCards:
    """The node annotation for these cards.

    A card keeps the index that ``known`` (the annotation before) gave its UUID. A new card gets the lowest index that
    no known card has and that no pod of the node names (``in_use``): an index never silently becomes another card
    under a pod.
    """
    before = {card.uuid: card.index for card in known.cards} if known else {}
    present = {card.uuid: before[card.uuid] for card in physical if card.uuid in before}
    taken = set(present.values()) | (in_use if known else frozenset())
    free = (index for index in range(len(physical) + len(taken)) if index not in taken)
    indices = {card.uuid: present[card.uuid] if card.uuid in present else next(free) for card in physical}
    facts = (
        CardFacts(indices[card.uuid], card.uuid, card.model, card.mib, unit.units_of(card.mib), numa=card.numa)
        for card in physical
    )
    return NodeCards(CARDS_VERSION, "ids", str(unit), boot, tuple(sorted(facts, key=lambda card: card.index)))


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
        """One id for each unit of the card."""
        return [f"{_PREFIX}{self._names[card.uuid]}-{number}" for number in range(card.units)]

    def card_of(self, device_id: str) -> CardFacts | None:
        """The card of an id, or None for an id that is none of ours (the Go plugin's, or of a card that is gone)."""
        name, _, _ = device_id.removeprefix(_PREFIX).partition("-")
        return self._cards.get(name) if device_id.startswith(_PREFIX) else None

    def one_card_of(self, device_ids: Iterable[str]) -> CardFacts | None:
        """The card on which all these ids lie, or None where that is not one card of ours."""
        cards = {card.uuid if card else "": card for card in map(self.card_of, device_ids)}
        return next(iter(cards.values())) if len(cards) == 1 else None


def device_list(cards: Sequence[CardFacts]) -> list[tuple[str, str]]:
    """``(id, health)`` of every unit of every card; all ids of a card share its health."""
    ids = DeviceIds(cards)
    return [(device_id, HEALTHY if card.healthy else UNHEALTHY) for card in cards for device_id in ids.of_card(card)]


def encoded_size(cards: Sequence[CardFacts]) -> int:
    """Bytes of the list as the kubelet receives it, in the worst case: every card sick ("Unhealthy" is longer)."""
    return sum(_device_size(len(device_id)) for device_id, _ in device_list(cards))


def _device_size(id_length: int) -> int:
    """One Device in a ListAndWatchResponse: a tag and a length before each of message, id and health."""
    inner = 2 + id_length + 2 + len(UNHEALTHY)
    return 2 + inner


def check_ids(cards: NodeCards, kubelet_version: str, max_ids: int | None) -> None:
    """Refuse a list that the kubelet would not take. Raises TooManyIdsError that says which unit would fit.

    Past 4 MiB no kubelet takes it (and shows no resource, without a word on the node). From 1.36 on a kubelet stands
    still for minutes over tens of thousands of ids; ``max_ids`` (the operator's word) replaces the limit that we
    assume there. A version that we cannot read counts as new.
    """
    count = sum(card.units for card in cards.cards)
    kubelet = kubelet_version or "unknown"
    limit = wire.KUBELET_MESSAGE_LIMIT
    if max_ids is None and _is_slow(kubelet_version):
        max_ids = DEFAULT_MAX_IDS
    if max_ids is not None and count > max_ids:
        raise TooManyIdsError(
            f"--memory-unit {cards.unit} makes {count} ids, more than {max_ids} (kubelet {kubelet}); "
            f"use --memory-unit {_unit_for(cards, max_ids)}, or --max-ids {count} if this kubelet takes them"
        )
    if (size := encoded_size(cards.cards)) > limit:
        fitting = _unit_for(cards, count * limit // size)
        raise TooManyIdsError(
            f"--memory-unit {cards.unit} makes {count} ids, {size} bytes; a kubelet takes {limit}; "
            f"use --memory-unit {fitting}"
        )


def _is_slow(kubelet_version: str) -> bool:
    match = re.match(r"v?(\d+)\.(\d+)", kubelet_version)
    return match is None or (int(match[1]), int(match[2])) >= _SLOW_LOOKUP_SINCE


def _unit_for(cards: NodeCards, ids: int) -> MemoryUnit:
    """The smallest unit, a power of two of MiB up to GiB, that makes no more than ``ids`` ids of these cards."""
    mib = 1
    while mib < MIB_PER_GIB and sum(card.mib // mib for card in cards.cards) > ids:
        mib *= 2
    return MemoryUnit(mib)


def visible_device(card: CardFacts, nvml_indices: Mapping[str, int], by: str) -> str:
    """How NVIDIA_VISIBLE_DEVICES names the card: its UUID, or NVML's index (``by`` "index")."""
    return str(nvml_indices[card.uuid]) if by == "index" else card.uuid
