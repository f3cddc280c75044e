"""Where the book and the API differ about one pod or one node, and by how much. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from gpushare import wire
from gpushare.extender.core.belief import Belief, booking_of
from gpushare.manifests import Node, Pod
from gpushare.model.device import Device
from gpushare.model.node import Booking, capacity, described_cards, published_cards
from gpushare.model.pod import is_assigned, is_finished

# Kinds of drift: the book is wrong.
MISSING: Final = "missing"
"""The API has a bound pod that the book lacks."""
PHANTOM: Final = "phantom"
"""The book has a pod that is gone, has finished, or holds nothing."""
OTHER_NODE: Final = "other_node"
OTHER_CARD: Final = "other_card"
OTHER_AMOUNT: Final = "other_amount"
OTHER_DETAILS: Final = "other_details"
"""The cards are right; what else is booked of the pod (whether it may be evicted, its group) is not."""
UNCONFIRMED: Final = "unconfirmed"
"""Bound as the book assumes, and the event about it was lost."""
STALE_ASSUMPTION: Final = "stale_assumption"
"""Assumed for longer than can be, and not bound there."""
PENDING_MISSING: Final = "pending_missing"
PENDING_PHANTOM: Final = "pending_phantom"
PENDING_OTHER: Final = "pending_other"
NODE_MISSING: Final = "node_missing"
NODE_PHANTOM: Final = "node_phantom"
NODE_OTHER_CARDS: Final = "node_other_cards"
DRIFT_KINDS: Final = (
    MISSING, PHANTOM, OTHER_NODE, OTHER_CARD, OTHER_AMOUNT, OTHER_DETAILS, UNCONFIRMED, STALE_ASSUMPTION,
    PENDING_MISSING, PENDING_PHANTOM, PENDING_OTHER, NODE_MISSING, NODE_PHANTOM, NODE_OTHER_CARDS,
)  # fmt: skip

# Kinds of oddities in the API itself; the book has the same.
UNPLACED: Final = "unplaced"
"""A bound pod with gpu-mem that no valid annotation puts on a card of its node."""
OVER_COMMITTED: Final = "over_committed"
"""Pods that the plugins let onto a card (ASSIGNED) book more than the card has."""
CARDS_DISPUTED: Final = "cards_disputed"
"""A node's cards annotation contradicts its capacity, so the book divides total by count."""
ODD_KINDS: Final = (UNPLACED, OVER_COMMITTED, CARDS_DISPUTED)


@dataclass(frozen=True, slots=True)
class Drift:
    """How many units of card memory are booked wrongly, over how many pods (or nodes), for one kind."""

    units: int = 0
    objects: int = 0


class Versions(NamedTuple):
    """A resourceVersion of each collection."""

    nodes: str
    pods: str


@dataclass(frozen=True, slots=True)
class Difference:
    """One pod or node of which the book is wrong, or that is odd. ``book`` and ``api`` are for people.

    ``is_assigned``: the plugin has let the pod's containers onto the card.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    units: int
    book: str = ""
    api: str = ""
    is_assigned: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """All that the book has of one pod. ``pending`` is what it has under the pod's name, be it this one or another."""

    confirmed: tuple[str, Booking] | None = None
    assumed: tuple[tuple[str, Booking], ...] = ()
    pending: Pod | None = None

    @property
    def booked(self) -> tuple[tuple[str, Booking], ...]:
        """By the API and by assumption."""
        return (*(() if self.confirmed is None else (self.confirmed,)), *self.assumed)


def pod_difference(known: Known, pod: Pod, wanted: tuple[str, Booking] | None) -> Difference | None:
    """The book's error about a pod that the API shows; None if both agree. ``wanted`` is ``wanted_of(pod)``.

    An assumption for a pod that is not bound is a bind in flight, unless it is old: the caller knows (``STALE_ASSUMPTION``).
    """
    had = known.booked
    kind = _booked_kind(known, wanted, bool(pod.spec.node_name)) or _pending_kind(known, pod, bool(had))
    if kind is None:
        return None
    metadata = pod.metadata
    api = _text_of([wanted]) if wanted else pod.spec.node_name or "not bound"
    units = wrong_units(had, [wanted] if wanted else [])
    identity = metadata.namespace, metadata.name, metadata.uid
    return Difference(kind, *identity, units, _text_of(had), api, is_assigned(pod))


def gone_difference(known: Known, namespace: str, name: str, uid: str) -> Difference | None:
    """The book's error about a pod that is not there any more."""
    if had := known.booked:
        return Difference(PHANTOM, namespace, name, uid, wrong_units(had, []), _text_of(had), "gone")
    if known.pending is not None and known.pending.metadata.uid == uid:
        return Difference(PENDING_PHANTOM, namespace, name, uid, 0, "pending", "gone")
    return None


def node_difference(name: str, book: tuple[Device, ...] | None, listed: tuple[Device, ...] | None) -> Difference | None:
    """The book's error about a node's cards; None stands for a node that is not there."""
    if book == listed:
        return None
    kind = NODE_MISSING if book is None else NODE_PHANTOM if listed is None else NODE_OTHER_CARDS
    had = Counter({device.index: device.total for device in book or ()})
    has = Counter({device.index: device.total for device in listed or ()})
    units = max((had - has).total(), (has - had).total())
    return Difference(kind, "", name, name, units, _cards(book), _cards(listed))


def wanted_of(pod: Pod, known: Belief | None = None, has_gap: bool = True) -> tuple[str, Booking] | None:
    """Node and booking that the book must have of a pod as the API shows it; None if it holds nothing.

    ``known`` is what the book believes of its cards already, and ``has_gap`` whether the book may have missed states of it.
    """
    node = pod.spec.node_name
    if not node or is_finished(pod):
        return None
    booking, _, _ = booking_of(pod, known, has_gap=has_gap)
    return (node, booking) if booking.units > 0 or booking.shares else None


def wrong_units(had: Iterable[tuple[str, Booking]], wanted: Iterable[tuple[str, Booking]]) -> int:
    """The larger of two sums: units that are booked wrongly, and units that should be booked and are not."""
    book, api = _amounts(had), _amounts(wanted)
    return max((book - api).total(), (api - book).total())


def _text_of(bookings: Iterable[tuple[str, Booking]]) -> str:
    """For a line of log: ``node:card=units``."""
    parts = [f"{node}:{'?' if card is None else card}={units}" for (node, card), units in _amounts(bookings).items()]
    return "+".join(parts) or "nothing"


def unplaced(pod: Pod, booking: Booking, cards: tuple[Device, ...] | None) -> Difference | None:
    """A bound pod's units that lie on none of its node's cards. While a node shows no cards, any card is believed."""
    indices = {device.index for device in cards or ()}
    placed = sum(units for index, units in booking.shares if not indices or index in indices)
    if placed >= booking.units:
        return None
    metadata = pod.metadata
    where = f"{pod.spec.node_name}: {wire.ANNOTATION_INDEX}={(metadata.annotations or {}).get(wire.ANNOTATION_INDEX)}"
    return Difference(UNPLACED, metadata.namespace, metadata.name, metadata.uid, booking.units - placed, api=where)


def cards_disputed(node: Node) -> Difference | None:
    """A cards annotation that the book does not believe."""
    if wire.ANNOTATION_CARDS not in (node.metadata.annotations or {}) or published_cards(node) is not None:
        return None
    name, units = node.metadata.name, capacity(node, wire.RESOURCE_MEMORY)
    why = described_cards(node).refusal or "annotation and capacity contradict each other"
    return Difference(CARDS_DISPUTED, "", name, name, units, api=why)


def assigned_shares(pod: Pod, booking: Booking) -> tuple[tuple[int, int], ...]:
    """The cards onto which the plugin let the pod; none while it is booked on more than it asks for, because it is blocked then."""
    return booking.shares if is_assigned(pod) and sum(units for _, units in booking.shares) == booking.units else ()


def over_committed(node: str, index: int, units: int, cards: tuple[Device, ...] | None) -> Difference | None:
    """A card on which containers run that book more than there is. Nothing is known of a card that the node does not have."""
    total = next((device.total for device in cards or () if device.index == index), units)
    if units <= total:
        return None
    api = f"card {index}: {units} of {total} units assigned"
    return Difference(OVER_COMMITTED, "", node, f"{node}/{index}", units - total, api=api)


def tally(kinds: Iterable[str], found: Iterable[Difference]) -> dict[str, Drift]:
    """By kind; each of ``kinds`` is there."""
    sums = dict.fromkeys(kinds, Drift())
    for one in found:
        sums[one.kind] = Drift(sums[one.kind].units + one.units, sums[one.kind].objects + 1)
    return sums


def has_reached(seen: str, version: str) -> bool | None:
    """Has a watch that has seen one version passed another? None if they are no numbers."""
    if seen == version:
        return True
    if seen.isascii() and seen.isdigit() and version.isascii() and version.isdigit():
        return int(seen) >= int(version)
    return None


def _booked_kind(known: Known, wanted: tuple[str, Booking] | None, is_bound: bool) -> str | None:
    if wanted is None:
        if known.confirmed is not None or (known.assumed and is_bound):
            return PHANTOM
        return STALE_ASSUMPTION if known.assumed else None
    node, booking = wanted
    had = known.confirmed or next((one for one in known.assumed if one[0] == node), None)
    if had is None:
        return OTHER_NODE if known.assumed else MISSING
    kind = OTHER_NODE if had[0] != node else _kind_of(had[1], booking)
    if known.confirmed is not None:
        return kind or (STALE_ASSUMPTION if known.assumed else None)
    return UNCONFIRMED if kind in (None, OTHER_DETAILS) else kind


def _kind_of(had: Booking, wanted: Booking) -> str | None:
    if (had.units, had.slots) != (wanted.units, wanted.slots):
        return OTHER_AMOUNT
    if sorted(had.shares) != sorted(wanted.shares):
        return OTHER_AMOUNT if {card for card, _ in had.shares} == {card for card, _ in wanted.shares} else OTHER_CARD
    return None if had == wanted else OTHER_DETAILS


def _pending_kind(known: Known, pod: Pod, is_booked: bool) -> str | None:
    """For a pod with the right booking."""
    pending = known.pending if known.pending is not None and known.pending.metadata.uid == pod.metadata.uid else None
    if pod.spec.node_name:
        return None if pending is None else PENDING_PHANTOM
    if pending is None:
        return None if is_booked else PENDING_MISSING
    return None if pending.metadata.resource_version == pod.metadata.resource_version else PENDING_OTHER


def _amounts(bookings: Iterable[tuple[str, Booking]]) -> Counter[tuple[str, int | None]]:
    """Units by node and card; no card for what lies on none."""
    found: Counter[tuple[str, int | None]] = Counter()
    for node, booking in bookings:
        for card, units in booking.shares:
            found[node, card] += units
        unsaid = booking.units - sum(units for _, units in booking.shares)
        if unsaid > 0:
            found[node, None] += unsaid
    return found


def _cards(devices: tuple[Device, ...] | None) -> str:
    if devices is None:
        return "not there"
    return (
        "+".join(f"{device.index}={device.total}{'' if device.healthy else '(sick)'}" for device in devices) or "none"
    )
