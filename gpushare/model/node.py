"""The cards of a node, and the pods laid on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import msgspec

from gpushare import wire
from gpushare.errors import InvalidQuantityError
from gpushare.manifests import Node
from gpushare.model.device import Device
from gpushare.model.eviction import Evictable
from gpushare.model.quantity import MemoryUnit, parse_units


class CardFacts(msgspec.Struct, frozen=True, gc=False):
    """One card in the node annotation. ``index`` is ours: fixed to the UUID; ``units`` counts ``unit``s of memory.

    ``slots`` is how many containers it takes at once, in slots mode; 0 in ids mode, where nobody counts them.
    """

    index: int
    uuid: str
    model: str
    mib: int
    units: int
    slots: int = 0
    healthy: bool = True
    reason: str = ""
    numa: int = 0


class NodeCards(msgspec.Struct, frozen=True, gc=False):
    """The node annotation ``aliyun.com/gpushare-cards``: what the device plugin says of its cards.

    ``mode`` is ``ids`` (one fake device is one unit) or ``slots`` (one is one container, ``unit`` is MiB).
    """

    v: int
    mode: str
    unit: str
    boot: str
    cards: tuple[CardFacts, ...]


CARDS_VERSION = 1
MODE_IDS = "ids"
MODE_SLOTS = "slots"
# Why a card is sick that pods of the node name, and that is not there any more (slots mode).
REASON_TAKEN_OUT = "taken out of the machine"
_DECODER = msgspec.json.Decoder(NodeCards)


def encode_cards(cards: NodeCards) -> str:
    """The text of the node annotation."""
    return msgspec.json.encode(cards).decode()


def decode_cards(text: str) -> NodeCards | None:
    """The node annotation, or None where it is not one that we can read (broken by hand, or of a later version)."""
    try:
        cards = _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    indices = {card.index for card in cards.cards}
    sane = len(indices) == len(cards.cards) and all(_is_sane(card, cards.mode) for card in cards.cards)
    return cards if cards.v == CARDS_VERSION and cards.mode in (MODE_IDS, MODE_SLOTS) and sane else None


def _is_sane(card: CardFacts, mode: str) -> bool:
    """Numbers that mean something: a card that counts containers but takes none would be refused for ever."""
    return card.index >= 0 and card.units >= 0 and (card.slots > 0 if mode == MODE_SLOTS else card.slots >= 0)


def capacity(node: Node, resource: str) -> int:
    """The node's capacity of a resource in units; 0 where there is none or it is no whole number."""
    amounts = node.status.capacity if node.status else None
    try:
        return parse_units((amounts or {}).get(resource, 0))
    except InvalidQuantityError:
        return 0


def published_cards(node: Node) -> NodeCards | None:
    """The cards annotation while it is valid: its units add up to the capacity, its cards to the count.

    Otherwise a rollback to the Go plugin left it behind, or the kubelet has not heard of the plugin yet.
    """
    text = (node.metadata.annotations or {}).get(wire.ANNOTATION_CARDS)
    cards = decode_cards(text) if text is not None else None
    if cards is None or len(cards.cards) != capacity(node, wire.RESOURCE_COUNT):
        return None
    if sum(card.units for card in cards.cards) != capacity(node, wire.RESOURCE_MEMORY):
        return None
    return cards


def devices_of(node: Node, unhealthy: frozenset[int] = frozenset()) -> tuple[Device, ...]:
    """The node's cards, nothing booked, by index.

    From the annotation where it is valid, else total ÷ count for each card (a node of the Go plugin, which says no
    more). ``unhealthy`` are indices that somebody's ConfigMap declares sick. A node without ``gpu-mem`` or
    ``gpu-count`` has none.
    """
    cards = published_cards(node)
    if cards is not None:
        unit_mib = _unit_mib(cards)
        found: Iterable[Device] = (
            Device(
                card.index,
                card.units,
                0,
                card.healthy,
                card.uuid,
                card.model,
                _slots_of(card, cards),
                numa=card.numa,
                unit_mib=unit_mib,
            )
            for card in sorted(cards.cards, key=lambda card: card.index)
        )
    else:
        total, count = capacity(node, wire.RESOURCE_MEMORY), capacity(node, wire.RESOURCE_COUNT)
        found = (Device(index, total // count) for index in range(count if total else 0))
    return tuple(replace(device, healthy=False) if device.index in unhealthy else device for device in found)


def _slots_of(card: CardFacts, cards: NodeCards) -> int:
    return card.slots if cards.mode == MODE_SLOTS else 0


def _unit_mib(cards: NodeCards) -> int:
    try:
        return MemoryUnit.parse(cards.unit).mib
    except InvalidQuantityError:
        return 0


def parse_unhealthy(text: str) -> tuple[frozenset[int], tuple[str, ...]]:
    """Card indices in the ConfigMap's ``gpus: "0,2"``, and the entries that name none (defect D11: they banned card 0)."""
    entries = [entry for part in text.split(",") if (entry := part.strip())]
    odd = tuple(entry for entry in entries if not _is_index(entry))
    return frozenset(int(entry) for entry in entries if _is_index(entry)), odd


def _is_index(text: str) -> bool:
    """Of so many digits as an integer of the API has at most: Python reads no number of thousands."""
    return text.isascii() and text.isdigit() and len(text) <= 19


@dataclass(frozen=True, slots=True)
class Booking:
    """A pod on a node: ``shares`` are ``(card index, units)``; empty where no valid annotation says a card.

    ``slots`` is how many containers it may have at once on each of these cards. (Which container of a pod of several
    cards is on which nobody needs to know: a card may then count one too many, never one too few.) ``group`` is ``Wishes.group``;
    ``evictable`` is there once the API has shown the pod bound.
    """

    uid: str
    namespace: str
    name: str
    units: int
    shares: tuple[tuple[int, int], ...]
    slots: int = 1
    group: str = ""
    evictable: Evictable | None = None


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A node's cards with its pods laid on them.

    ``largest_free`` and ``largest_total`` are over healthy cards, in units: what filter asks first; in slots mode only
    a card with a free slot counts as free. ``rooms`` are the healthy cards that have room, as ``(free, index, total)``, the
    tightest first; ``total`` and ``used`` are the sums over healthy cards. ``unplaced`` are units of pods that no annotation
    puts on one of the node's cards. ``counts_slots`` says that the node is in slots mode.
    """

    name: str
    devices: tuple[Device, ...]
    bookings: tuple[Booking, ...]
    largest_free: int
    largest_total: int
    unplaced: int
    rooms: tuple[tuple[int, int, int], ...]
    total: int
    used: int
    counts_slots: bool = False


def lay_out(name: str, devices: tuple[Device, ...], bookings: Iterable[Booking]) -> NodeInfo:
    """Book the pods on the cards. A share on a card that the node has not is ``unplaced``, never another card's."""
    laid = tuple(bookings)
    used: dict[int, int] = {device.index: device.used for device in devices}
    slots: dict[int, int] = {device.index: device.slots_used for device in devices}
    unplaced = 0
    for booking in laid:
        placed = 0
        for index, units in booking.shares:
            if index in used:
                used[index] += units
                slots[index] += booking.slots
                placed += units
        unplaced += max(booking.units - placed, 0)
    counts_slots = any(device.slots for device in devices)
    booked = tuple(device.booked(used[device.index], slots[device.index] if counts_slots else 0) for device in devices)
    healthy = [device for device in booked if device.healthy]
    return NodeInfo(
        name=name,
        devices=booked,
        bookings=laid,
        largest_free=max((device.free for device in booked if device.holds(0, 1)), default=0),
        largest_total=max((device.total for device in healthy), default=0),
        unplaced=unplaced,
        rooms=tuple(sorted((device.free, device.index, device.total) for device in healthy if device.free)),
        total=sum(device.total for device in healthy),
        used=sum(device.used for device in healthy),
        counts_slots=counts_slots,
    )


def laid_anew(node: NodeInfo, bookings: Iterable[Booking]) -> NodeInfo:
    """The same node and cards with these pods on them, and no others."""
    return lay_out(node.name, tuple(device.booked(0, 0) for device in node.devices), bookings)


def units_on(booking: Booking, index: int) -> int:
    """What a pod holds of one card."""
    return sum(units for card, units in booking.shares if card == index)


def booked_by_device(node: NodeInfo) -> Mapping[int, tuple[Booking, ...]]:
    """The pods of each card."""
    return {
        device.index: tuple(booking for booking in node.bookings if units_on(booking, device.index) > 0)
        for device in node.devices
    }
