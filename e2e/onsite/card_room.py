"""The room on each card of a node: what it has, less what any pod has booked. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from e2e import spec
from e2e.checkers.overcommit import is_over
from e2e.checkers.pod_requests import units_of
from e2e.site.node_cards import UnreadableError, averaged, described
from e2e.site.picture import annotations_of, names_card, shares_or_none

_SLOTS: Final = "slots"
_UNITS: Final[Mapping[str, int]] = {"GiB": 1024, "MiB": 1}


@dataclass(frozen=True, slots=True)
class CardRoom:
    """One healthy card, and the units that no pod has booked. ``uuid`` is "" if the node's annotation does not name cards."""

    index: int
    uuid: str
    units: int
    free: int


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """One node's cards, those with the most room first."""

    node: str
    mib_per_unit: int
    has_slots: bool
    """Does each container of a pod ask for a slot, too?"""
    cards: tuple[CardRoom, ...]

    @property
    def freest(self) -> int:
        """The units that a pod can get now."""
        return max((card.free for card in self.cards), default=0)

    def units_of(self, mib: int) -> int:
        """The fewest units that hold this memory, in MiB."""
        return -(-mib // self.mib_per_unit)


def room_on(node: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> NodeRoom:
    """The room on a node. Raises UnreadableError for an annotation that does not describe cards."""
    name = node["metadata"]["name"]
    shown = described(node) or averaged(node)
    cards = tuple(shown.cards.values())
    booked: Counter[int] = Counter()
    for pod in pods:
        if pod["spec"].get("nodeName") == name and not is_over(pod) and (units := units_of(pod)):
            shares = shares_or_none(pod) if names_card(pod) else None
            # Its card is not known, so it may be any of them.
            booked.update(dict.fromkeys((card.index for card in cards), units) if shares is None else shares)
    rooms = [
        CardRoom(card.index, card.uuid, card.units, card.units - booked[card.index]) for card in cards if card.healthy
    ]
    ordered = tuple(sorted(rooms, key=lambda room: (-room.free, room.index)))
    return NodeRoom(name, mib_per_unit(node), shown.mode == _SLOTS, ordered)


def mib_per_unit(node: Mapping[str, Any]) -> int:
    """The size of a unit of the node, in MiB. Raises UnreadableError; a node without an annotation counts GiB."""
    text = annotations_of(node).get(spec.NODE_CARDS)
    if text is None:
        return spec.MIB_PER_UNIT
    try:
        unit = str(json.loads(text)["unit"])
        return _UNITS[unit] if unit in _UNITS else int(unit.removesuffix("MiB"))
    except (ValueError, TypeError, KeyError) as error:
        raise UnreadableError(f"its unit is not known: {error}") from error
