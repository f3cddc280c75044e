"""The room on each card of a node: what it has, less what any pod has booked. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from e2e import spec
from e2e.checkers.overcommit import is_over, shares_or_none
from e2e.checkers.pod_requests import slots_of, units_of
from e2e.site.node_cards import Cards, amount, averaged, described

_SLOTS: Final = "slots"


@dataclass(frozen=True, slots=True)
class Room:
    """The units and the slots that no pod has booked. ``slots`` is None on a node that does not count containers."""

    units: int
    slots: int | None = None

    def pods(self, units: int, containers: int) -> int:
        """How many pods of this size fit in."""
        most = self.units // units
        return max(0, most if self.slots is None else min(most, self.slots // containers))


@dataclass(frozen=True, slots=True)
class CardRoom:
    """One healthy card, its size and its room. ``uuid`` is "" if the node's annotation does not name cards."""

    index: int
    uuid: str
    units: int
    free: Room


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """One node's cards, those with the most units free first."""

    node: str
    mib_per_unit: int
    free: Room
    """The room that a scheduler sees on the node, whatever card a pod is on."""
    cards: tuple[CardRoom, ...]

    @property
    def has_slots(self) -> bool:
        """Does each container of a pod ask for a slot, too?"""
        return self.free.slots is not None

    def pods(self, units: int, *, containers: int = 1, on_one_card: bool = False) -> int:
        """How many pods of this size fit together. All are of one size, so it does not matter which card each is put on."""
        fitting = [card.free.pods(units, containers) for card in self.cards]
        on_cards = max(fitting, default=0) if on_one_card else sum(fitting)
        return min(on_cards, self.free.pods(units, containers))

    def card_for(self, units: int) -> CardRoom:
        """The card that takes the most pods of one container of this size."""
        return max(self.cards, key=lambda card: card.free.pods(units, 1))

    def units_of(self, mib: int) -> int:
        """The fewest units that hold this memory, in MiB."""
        return -(-mib // self.mib_per_unit)


def room_on(node: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> NodeRoom:
    """The room on a node. Raises UnreadableError for an annotation that does not describe cards."""
    name = node["metadata"]["name"]
    shown = described(node) or averaged(node)
    units: Counter[int] = Counter()
    slots: Counter[int] = Counter()
    there = [pod for pod in pods if pod["spec"].get("nodeName") == name and not is_over(pod) and units_of(pod)]
    for pod in there:
        shares = _shares(pod, shown)
        units.update(shares)
        slots.update(dict.fromkeys(shares, slots_of(pod)))
    counts_slots = shown.mode == _SLOTS
    rooms = [
        CardRoom(
            card.index,
            card.uuid,
            card.units,
            Room(card.units - units[card.index], card.slots - slots[card.index] if counts_slots else None),
        )
        for card in shown.cards.values()
        if card.healthy
    ]
    free = Room(
        amount(node, spec.RESOURCE_MEMORY, "allocatable") - sum(map(units_of, there)),
        amount(node, spec.RESOURCE_SLOT, "allocatable") - sum(map(slots_of, there)) if counts_slots else None,
    )
    ordered = tuple(sorted(rooms, key=lambda room: (-room.free.units, room.index)))
    return NodeRoom(name, shown.mib_per_unit, free, ordered)


def _shares(pod: Mapping[str, Any], shown: Cards) -> Mapping[int, int]:
    """The units of a pod by card. If its annotations do not place all of its request, each card may have all of it."""
    asked, shares = units_of(pod), shares_or_none(pod) or {}
    is_placed = sum(shares.values()) >= asked and min(shares.values()) >= 0 and shares.keys() <= shown.cards.keys()
    return shares if is_placed else dict.fromkeys(shown.cards, asked)
