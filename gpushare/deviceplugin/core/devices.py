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

from gpushare import wire
from gpushare.errors import TooManyIdsError
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


# The first kubelet that looks ids up one by one, and that writes them into the pod's status.
_NEW_KUBELET: Final = (1, 36)
# Ids that such a kubelet takes in about a second.
DEFAULT_MAX_IDS: Final = 4000
# Ids of one pod with a status that such a kubelet can still write. Tried: API server 1.36.3 kept a status of 49,101 ids of 17
# characters and refused one of 49,375 (etcd's request limit); the rest is for the other fields of a pod.
MOST_IDS_OF_A_POD: Final = 40_000


def check_ids(cards: NodeCards, kubelet_version: str, max_ids: int | None) -> None:
    """Refuse a list that the kubelet would not take. Raises TooManyIdsError, which names a unit or mode that fits.

    ``max_ids`` (the operator's word) replaces the limit that we assume for a kubelet of 1.36 or newer. A version that
    we cannot read counts as new.
    """
    count = sum(map(id_count, cards.cards))
    if max_ids is None and is_new(kubelet_version):
        max_ids = DEFAULT_MAX_IDS
    if max_ids is not None and count > max_ids:
        raise TooManyIdsError(
            f"{_asked(cards)} makes {count} ids, more than {max_ids} (kubelet {kubelet_version or 'unknown'}); "
            f"use {_fitting(cards, max_ids)}, or --max-ids {count} if this kubelet takes them"
        )
    limit = wire.KUBELET_MESSAGE_LIMIT
    if (size := encoded_size(cards.cards)) > limit:
        raise TooManyIdsError(
            f"{_asked(cards)} makes {count} ids, {size} bytes; a kubelet takes {limit}; "
            f"use {_fitting(cards, count * limit // size)}"
        )


def check_ids_of_pod(units: int, cards: NodeCards, kubelet_version: str) -> None:
    """Refuse a pod with too many ids for its status to be written. Raises TooManyIdsError."""
    if units > MOST_IDS_OF_A_POD and cards.mode == MODE_IDS and is_new(kubelet_version):
        raise TooManyIdsError(
            f"a pod of {units} units of {cards.unit} is more than the API server can keep: kubelet "
            f"{kubelet_version or 'unknown'} writes each into the pod's status, which holds {MOST_IDS_OF_A_POD}; "
            f"ask for less, or run this node's device plugin with {_fitting(cards, DEFAULT_MAX_IDS)}"
        )


def encoded_size(cards: Sequence[CardFacts]) -> int:
    """Bytes of the list as the kubelet receives it, in the worst case: every card sick ("Unhealthy" is longer)."""
    ids = DeviceIds(cards)
    return sum(_size_of(len(ids.prefix_of(card)), id_count(card)) for card in cards)


def is_new(kubelet_version: str) -> bool:
    """Is this kubelet of 1.36 or newer, or of a version that cannot be read?"""
    release = kubelet_release(kubelet_version)
    return release is None or release >= _NEW_KUBELET


def kubelet_release(kubelet_version: str) -> tuple[int, int] | None:
    """Major and minor of ``v1.36.3``, or None if the text does not begin like that."""
    match = re.match(r"v?(\d+)\.(\d+)", kubelet_version)
    return (int(match[1]), int(match[2])) if match is not None else None


def _size_of(prefix: int, count: int) -> int:
    """``count`` Devices with ids of a prefix and a number: a tag and a length before each of message, id and health."""
    size = 0
    digits, first = 1, 0
    while first < count:
        last = min(10**digits, count)
        size += (last - first) * (2 + 2 + prefix + digits + 2 + len(UNHEALTHY))
        digits, first = digits + 1, last
    return size


def _asked(cards: NodeCards) -> str:
    return f"--slots {cards.cards[0].slots}" if cards.mode == MODE_SLOTS else f"--memory-unit {cards.unit}"


def _fitting(cards: NodeCards, ids: int) -> str:
    """The flags with which the cards make no more than ``ids`` ids."""
    if cards.mode == MODE_SLOTS:
        return f"--slots {max(ids // len(cards.cards), 1)}"
    unit = _unit_for(cards, ids)
    return f"--memory-unit {unit}, or --mode slots (exact MiB)" if unit else "--mode slots (exact MiB)"


def _unit_for(cards: NodeCards, ids: int) -> MemoryUnit | None:
    """The smallest unit, a power of two of MiB, that makes no more than ``ids`` ids; None if a card would have none."""
    mib = 1
    while sum(card.mib // mib for card in cards.cards) > ids:
        mib *= 2
    return MemoryUnit(mib) if all(card.mib >= mib for card in cards.cards) else None
