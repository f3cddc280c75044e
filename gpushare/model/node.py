"""A node's cards as they are scheduled, and the pods laid on them. Pure.

An amount of ``aliyun.com/gpu-mem`` is a number without its unit, and pods outlive a change of ``--memory-unit``. The size of the
card, which the binder writes on the pod in the same unit (``ALIYUN_COM_GPU_MEM_DEV``), shows which unit that was: no card has
1024 GiB, and none that is shared has less than 1024 MiB. These are the units of the original. On a node with another unit, such as
``256MiB``, there are no pods of an earlier unit, because only our device plugin has such units and it waits for their end
(``deviceplugin/core/bookings``).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from gpushare import wire
from gpushare.bounds import CARDS_OF_A_NODE, PODS_OF_A_NODE
from gpushare.errors import InvalidQuantityError
from gpushare.manifests import Node
from gpushare.model.cards import MODE_SLOTS, Description, NodeCards, entries_of, read_cards
from gpushare.model.conditions import not_limited
from gpushare.model.eviction import FIXED, Evictable
from gpushare.model.limits import CardOveruse, read_overuse
from gpushare.model.quantity import MIB_PER_GIB, MemoryUnit, is_number, parse_units

_MIB: Final = 1


class Device(Struct, frozen=True, gc=False):
    """One card of a node and how much of it is booked, in units of ``aliyun.com/gpu-mem``.

    ``used`` may exceed ``total`` (a pod that bypassed the extender, a card that was swapped for a smaller one): then
    nothing is free, never a wrapped number (defect D12 of the original).

    ``slots`` is how many containers the card takes at the same time on a node in slots mode, ``slots_used`` how many are booked;
    0 slots mean that the node is in ids mode, which does not count containers. ``uuid``, ``model`` and ``numa`` are empty
    if the node does not publish them. ``unit_mib`` is how many MiB a unit is, 0 if the node does not publish that.
    ``reason`` is why it is unhealthy, as the node publishes it; no decision depends on it.
    """

    index: int
    total: int
    used: int = 0
    healthy: bool = True
    uuid: str = ""
    model: str = ""
    slots: int = 0
    slots_used: int = 0
    numa: int = 0
    unit_mib: int = 0
    reason: str = ""

    @property
    def free(self) -> int:
        """Units that a new pod can have: none on an unhealthy card."""
        return max(self.total - self.used, 0) if self.healthy else 0

    @property
    def free_slots(self) -> int:
        """Containers that the card can still take: none on an unhealthy card. Without meaning in ids mode."""
        return max(self.slots - self.slots_used, 0) if self.healthy else 0

    def booked(self, used: int, slots_used: int) -> Device:
        """The same card with these amounts booked. Most cards often stay."""
        if used == self.used and slots_used == self.slots_used:
            return self
        return replace(self, used=used, slots_used=slots_used)

    def holds(self, units: int, slots: int) -> bool:
        """Is there room for these units, and in slots mode for this many containers beside those that it has?"""
        return self.free >= units and (not self.slots or self.free_slots >= slots)


def unit_of_size(card_units: int) -> int:
    """MiB of the unit in which a card has ``card_units`` units: a GiB, or one MiB."""
    return _MIB if card_units >= MIB_PER_GIB else MIB_PER_GIB


def units_now(units: int, size_then: int, card: Device) -> int:
    """The units of ``card`` that a pod holds which was bound with ``units`` while the card had ``size_then`` (0: not known).

    A card that has its former size counts in its former unit. Rounded up. A larger unit makes the number smaller only if the card
    has fewer units than the pod holds: then the number is certainly one of the former unit, so no annotation can make a booking of
    the present unit look smaller.
    """
    now = card.unit_mib or unit_of_size(card.total)
    if size_then in (0, card.total) or now not in (_MIB, MIB_PER_GIB):
        return units
    then = unit_of_size(size_then)
    if then > now:
        return units * MIB_PER_GIB
    return -(-units // MIB_PER_GIB) if then < now and units > card.total else units


def boot_of(node: Node | None) -> str:
    """The id of the boot that a node's kubelet reports; it is another one after each boot. Empty if it is not known."""
    info = node.status.node_info if node is not None and node.status else None
    return info.boot_id if info else ""


def capacity(node: Node, resource: str) -> int:
    """The node's capacity of a resource in units; 0 if there is none or it is no whole number."""
    amounts = node.status.capacity if node.status else None
    try:
        return parse_units((amounts or {}).get(resource, 0))
    except InvalidQuantityError:
        return 0


def offered_memory(node: Node) -> int | None:
    """The node's allocatable ``gpu-mem`` in units, with which kube-scheduler compares the sum of its pods; None if it has none."""
    amounts = (node.status.allocatable if node.status else None) or {}
    try:
        return parse_units(amounts[wire.RESOURCE_MEMORY]) if wire.RESOURCE_MEMORY in amounts else None
    except InvalidQuantityError:
        return None


def is_unoffered(node: Node) -> bool:
    """Does the node have cards, and its kubelet offer none of them, as it does once its device plugin is gone?

    For five minutes the capacity stays, then it is 0, too, and only the annotation of our plugin shows that there are cards. If all
    of these are unhealthy, the kubelet offers none either, and that is another matter.
    """
    offered = (node.status.allocatable if node.status else None) or {}
    cards, _ = described_cards(node)
    if cards is None:
        return bool(capacity(node, wire.RESOURCE_MEMORY)) and offered.get(wire.RESOURCE_MEMORY) == "0"
    resource = wire.RESOURCE_SLOT if cards.mode == MODE_SLOTS else wire.RESOURCE_MEMORY
    return any(card.healthy for card in cards.cards) and offered.get(resource, "0") == "0"


def described_cards(node: Node) -> Description:
    """The content of the node's cards annotation, whether it agrees with the capacity or not."""
    return read_cards((node.metadata.annotations or {}).get(wire.ANNOTATION_CARDS))


def published_cards(node: Node) -> NodeCards | None:
    """The cards annotation while it is valid: its units add up to the capacity, its cards to the count.

    Otherwise a rollback to the Go plugin left it behind, or the kubelet does not have the plugin's new list yet.
    """
    cards, refusal = described_cards(node)
    if cards is None or refusal or len(cards.cards) != capacity(node, wire.RESOURCE_COUNT):
        return None
    if sum(card.units for card in cards.cards) != capacity(node, wire.RESOURCE_MEMORY):
        return None
    return cards


class Published(NamedTuple):
    """The facts that a node shows beside its cards. ``refusal`` is why no pod may have one of them, None if pods may.

    ``overuse`` are pods that use more than they booked; ``offered`` is the node's ``offered_memory``, ``unlimited`` its condition
    ``not_limited``. No decision depends on these.
    """

    refusal: str | None = None
    overuse: tuple[CardOveruse, ...] = ()
    offered: int | None = None
    unlimited: str = ""


_NOTHING: Final = Published()


class NodeDevices(NamedTuple):
    """The cards of a node, nothing booked, by index."""

    devices: tuple[Device, ...]
    published: Published = _NOTHING

    def without(self, unhealthy: frozenset[int]) -> NodeDevices:
        """The same node; the cards of these indices are unhealthy."""
        devices = (replace(one, healthy=False) if one.index in unhealthy else one for one in self.devices)
        return NodeDevices(tuple(devices), self.published) if unhealthy else self

    def closed(self, reason: str) -> NodeDevices:
        """The same node while it gets no pods, for a reason that is not its cards'; a refusal of its own comes first."""
        devices = tuple(replace(device, healthy=False) for device in self.devices)
        return NodeDevices(devices, self.published._replace(refusal=self.published.refusal or reason))


def read_devices(node: Node, unhealthy: frozenset[int] = frozenset()) -> NodeDevices:
    """The node's cards from the annotation if it is valid, else total ÷ count for each (the Go plugin publishes no more).

    ``unhealthy`` are indices that a ConfigMap names. A node without ``gpu-mem`` or ``gpu-count`` has no cards, and neither has
    one of more cards than a machine can have. The cards of an annotation that must not be used are there, all unhealthy.
    """
    total, count = capacity(node, wire.RESOURCE_MEMORY), capacity(node, wire.RESOURCE_COUNT)
    if not total or not count:
        return NodeDevices(())
    if CARDS_OF_A_NODE.exceeded(count):
        return NodeDevices((), Published(CARDS_OF_A_NODE.refusal))
    described, refusal = described_cards(node)
    is_shown = refusal and described is not None and len(described.cards) == count
    cards = described if is_shown else published_cards(node)
    found = devices_of_cards(cards) if cards is not None else (Device(index, total // count) for index in range(count))
    devices = (replace(one, healthy=False) if refusal else one for one in found)
    published = Published(refusal, overuse_of(node), offered_memory(node), not_limited(node))
    return NodeDevices(tuple(devices), published).without(unhealthy)


def overuse_of(node: Node) -> tuple[CardOveruse, ...]:
    """The pods that its device plugin publishes as using more than they booked."""
    return read_overuse((node.metadata.annotations or {}).get(wire.ANNOTATION_OVERUSE))


def devices_of(node: Node, unhealthy: frozenset[int] = frozenset()) -> tuple[Device, ...]:
    """As ``read_devices``, without why they may not be used."""
    return read_devices(node, unhealthy).devices


def devices_of_cards(cards: NodeCards) -> Iterator[Device]:
    """The cards of an annotation, nothing booked, by index."""
    mib = unit_mib(cards)
    for card in sorted(cards.cards, key=lambda card: card.index):
        slots = card.slots if cards.mode == MODE_SLOTS else 0
        yield Device(
            card.index, card.units, 0, card.healthy, card.uuid, sys.intern(card.model), slots, numa=card.numa, unit_mib=mib,
            reason=card.reason,
        )  # fmt: skip


def unit_mib(cards: NodeCards) -> int:
    """How many MiB a unit of the node is, 0 if that is not known."""
    try:
        return MemoryUnit.parse(cards.unit).mib
    except InvalidQuantityError:
        return 0


def parse_unhealthy(text: str) -> tuple[frozenset[int], tuple[str, ...]]:
    """Card indices in the ConfigMap's ``gpus: "0,2"``, and the entries that name none (defect D11: they banned card 0).

    Only the beginning of a text that is too long is read, so the cards in it stay unhealthy; the last odd entry is that reason.
    """
    entries = entries_of(text)
    odd = tuple(entry for entry in entries if not is_number(entry))
    return frozenset(int(entry) for entry in entries if is_number(entry)), odd


class Booking(Struct, frozen=True, gc=False):
    """A pod on a node: ``shares`` are ``(card index, units)``; empty if no valid annotation names a card.

    ``slots`` is how many containers it may have running on each of these cards. (It is not known which container of a pod with
    several cards is on which, so a card may count one too many, never one too few.) ``group`` is ``Wishes.group``;
    ``evictable`` is known once the API has shown the pod bound. ``card_size`` is how many units the card had when the pod was
    bound, 0 if that is not known: it shows in which unit the amounts are. ``unlimited`` are those of its cards of which it can have
    more than its share, as ``unlimited_cards`` of ``model.limits`` has them.
    """

    uid: str
    namespace: str
    name: str
    units: int
    shares: tuple[tuple[int, int], ...]
    slots: int = 1
    group: str = ""
    evictable: Evictable = FIXED
    card_size: int = 0
    unlimited: tuple[tuple[int, str], ...] = ()


class NodeInfo(Struct, frozen=True, gc=False):
    """A node's cards with its pods laid on them.

    ``largest_free`` and ``largest_total`` are over healthy cards, in units: what filter asks first; in slots mode only
    a card with a free slot counts as free. ``rooms`` are the healthy cards that have room, as ``(free, index)``, the
    tightest first; ``total`` and ``used`` are the sums over healthy cards. ``unplaced`` are units of pods that no annotation
    puts on one of the node's cards. ``counts_slots``: the node is in slots mode.
    """

    name: str
    devices: tuple[Device, ...]
    bookings: tuple[Booking, ...]
    largest_free: int
    largest_total: int
    unplaced: int
    rooms: tuple[tuple[int, int], ...]
    total: int
    used: int
    counts_slots: bool = False
    published: Published = _NOTHING

    @property
    def left_in_sum(self) -> int | None:
        """Units that kube-scheduler has left of the node's sum if that is less than its largest card has free, else None.

        A pod without a healthy card counts there, too; one whose phase has ended does not.
        """
        offered = self.published.offered
        if offered is None or not self.largest_free:
            return None
        left = max(offered - sum(one.units for one in self.bookings if not one.evictable.is_lingering), 0)
        return left if left < self.largest_free else None


def lay_out(
    name: str, devices: tuple[Device, ...], bookings: Iterable[Booking], published: Published = _NOTHING
) -> NodeInfo:
    """Book the pods on the cards. A share on a card that the node has not is ``unplaced``, never another card's.

    Pods that are too many to lay out are a refusal.
    """
    laid = tuple(bookings)
    if PODS_OF_A_NODE.exceeded(len(laid)):
        devices, published = NodeDevices(devices, published).closed(PODS_OF_A_NODE.refusal)
        laid = laid[: PODS_OF_A_NODE.most]
    by_index = {device.index: device for device in devices}
    sizes = {device.index: device.total for device in devices}
    laid = tuple(one if _has_its_size(one, sizes) else _in_units_of(by_index, one) for one in laid)
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
        rooms=tuple(sorted((device.free, device.index) for device in healthy if device.free)),
        total=sum(device.total for device in healthy),
        used=sum(device.used for device in healthy),
        counts_slots=counts_slots,
        published=published,
    )


def _has_its_size(booking: Booking, sizes: Mapping[int, int]) -> bool:
    """Has the pod's one card the size that it was bound with? So it is for nearly every pod."""
    size = booking.card_size
    return not size or (len(booking.shares) == 1 and sizes.get(booking.shares[0][0], size) == size)


def _in_units_of(cards: Mapping[int, Device], booking: Booking) -> Booking:
    """The booking in the unit that the cards count in now."""
    shares = tuple(
        (index, units_now(units, booking.card_size, cards[index]) if index in cards else units)
        for index, units in booking.shares
    )
    if shares == booking.shares:
        return booking
    # A pod that is booked on two cards while its card is changed holds the amount of one.
    scale = max(Fraction(now, then) for (_, now), (_, then) in zip(shares, booking.shares, strict=True) if then)
    return replace(booking, shares=shares, units=math.ceil(booking.units * scale), card_size=0)


def laid_out_with(node: NodeInfo, bookings: Iterable[Booking]) -> NodeInfo:
    """The same node and cards with these pods on them, and no others."""
    return lay_out(node.name, tuple(device.booked(0, 0) for device in node.devices), bookings, node.published)


def units_on(booking: Booking, index: int) -> int:
    """The units that a pod has of one card."""
    return sum(units for card, units in booking.shares if card == index)
