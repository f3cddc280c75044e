"""From cards to the fake devices that a kubelet counts: their ids, and how many of them it can take. Pure.

A fake device is one memory unit of one card; in slots mode it is room for one container on the card, whose memory is
then an amount of the node that no ids stand for. Its id names the card by the beginning of the card's UUID, so whatever
asks about an id later (after a restart of the plugin, of the kubelet, of the machine) gets the same card without any
state of ours. The prefix belongs to us alone: kubelets of 1.36 look an id's owner up over all resources
(kubernetes#140323).

Four limits, none of which a kubelet or an API server explains:

* 4 MiB in one message: past it the kubelet drops the list, and the node shows nothing.
* From 1.36 on the kubelet looks each new id up in the ids of all containers, under its lock: 4,000 ids take about a
  second, tens of thousands minutes, in which the node stands still.
* From 1.36 on the kubelet writes each id of a container into the pod's status (``allocatedResourcesStatus``), which the
  API server and etcd take up to a size; beyond that the state of the pod is never published.
* An id has at most 63 characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from typing import Final

from gpushare import wire
from gpushare.errors import TooManyIdsError
from gpushare.model.cards import MODE_IDS, MODE_SLOTS, CardFacts, NodeCards
from gpushare.model.quantity import MemoryUnit

HEALTHY: Final = "Healthy"
UNHEALTHY: Final = "Unhealthy"
_PREFIX: Final = "gs-"
# Characters of a UUID in an id: one pair in 2^32 would share eight.
_SHORT: Final = 8
# The most spare slots of a node in ids mode: four a pod on a kubelet with its usual 110 pods, and a list of 12 kB.
_MOST_SPARE_SLOTS: Final = 512
# The first kubelet that looks ids up one by one, and that writes them into the pod's status.
_NEW_KUBELET: Final = (1, 36)
# Ids that such a kubelet takes in about a second.
DEFAULT_MAX_IDS: Final = 4000
# Ids of one pod with a status that such a kubelet can still write. Tried: API server 1.36.3 kept a status of 49,101 ids of 17
# characters and refused one of 49,375 (etcd's request limit); the rest is for the other fields of a pod.
MOST_IDS_OF_A_POD: Final = 40_000


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

    def cards_of(self, device_ids: Iterable[str]) -> dict[str, int]:
        """The index of the card of each id that is ours."""
        found = ((one, self.card_of(one)) for one in device_ids)
        return {one: card.index for one, card in found if card is not None}


def id_count(card: CardFacts) -> int:
    """How many ids a card has: its slots in slots mode, its units else."""
    return card.slots or card.units


def device_list(cards: Sequence[CardFacts], kept: Set[str] = frozenset()) -> list[tuple[str, str]]:
    """``(id, health)`` of every id of every card: that of its card, except that the ids ``kept`` are healthy."""
    ids = DeviceIds(cards)
    return [
        (device_id, HEALTHY if card.healthy or device_id in kept else UNHEALTHY)
        for card in cards
        for device_id in ids.of_card(card)
    ]


def spare_slots(cards: Sequence[CardFacts], kept: Set[str] = frozenset()) -> list[tuple[str, str]]:
    """``(id, health)`` of the slots that a node in ids mode offers so that pods which name one can come to it too.

    They stand for nothing and lie on no card, so ``kept`` has none of them. Each container that asks for a slot asks for a unit of
    memory at least.
    """
    count = min(sum(card.units for card in cards), _MOST_SPARE_SLOTS)
    return [(f"{_PREFIX}any-{number}", HEALTHY) for number in range(count)]


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
    """Bytes of the list as the kubelet receives it, in the worst case: every card unhealthy ("Unhealthy" is longer).

    Each Device has a tag and a length before each of message, id and health.
    """
    ids = DeviceIds(cards)
    return sum(
        id_count(card) * (6 + len(ids.prefix_of(card)) + len(UNHEALTHY))
        + sum(len(str(n)) for n in range(id_count(card)))
        for card in cards
    )


def is_new(kubelet_version: str) -> bool:
    """Is this kubelet of 1.36 or newer, or of a version that cannot be read?"""
    match = re.match(r"v?(\d{1,4})\.(\d{1,4})", kubelet_version)
    return match is None or (int(match[1]), int(match[2])) >= _NEW_KUBELET


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
