"""One comparison of the book with a list of the API, from the list's begin to the last correction. Plain functions, no I/O.

The list and the book are of different moments. A difference becomes a correction only so:

1. ``see_*`` and ``end`` find *suspects*: what the list and the book say differently, of objects of which the book has
   no event since before the list was asked for. If there was an event since, the book may know more than the list.
2. The caller waits until the watches have passed the version of the list: what was merely under way has come now.
3. ``settle`` drops every suspect that had an event since, and those with a bind of ours under way. As for the others, the watch has
   passed the listed state without an event for it, so the event is lost, and the book gets that state. Every later change
   is still to come, in its order with those of other pods. If of two pods that exchange their cards one were booked ahead of
   the watch, both might stand on one card, the other looking free.

Suspects that were dropped are looked at again by the next audit. A bind is an event of its pod as its card is assumed, and again
as the API server answers. So an assumption is drift only if the list shows the pod unbound, and no request of ours was under way
from then to now. A uid never comes back, except if etcd is restored, and after that nothing is settled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, get_args

from gpushare import wire
from gpushare.extender.core.accepted_state import booking_of
from gpushare.extender.core.book import Book
from gpushare.manifests import Node, ObjectMeta, Pod
from gpushare.model.node import Booking, Device, capacity, described_cards, devices_of, published_cards
from gpushare.model.pod import is_assigned, is_finished

# Kinds of drift, by which the book is wrong.
DriftKind = Literal[
    "missing",  # The API has a bound pod that the book lacks.
    "phantom",  # The book has a pod that is gone, has finished, or holds nothing.
    "other_node",
    "other_card",
    "other_amount",
    "other_details",  # The cards are right; what else is booked of the pod (whether it may be evicted, its group) is not.
    "unconfirmed",  # Bound as the book assumes, and the event about it was lost.
    "stale_assumption",  # Assumed without a request that may still bind it, and not bound there.
    "pending_missing",
    "pending_phantom",
    "pending_other",
    "node_missing",
    "node_phantom",
    "node_other_cards",
]
DRIFT_KINDS: Final[tuple[str, ...]] = get_args(DriftKind)

# Kinds of oddities in the API itself; the book has the same.
OddKind = Literal[
    "unplaced",  # A bound pod with gpu-mem that no valid annotation puts on a card of its node.
    "over_committed",  # Pods that the plugins let onto a card (ASSIGNED) book more than the card has.
    "cards_in_conflict",  # A node's cards annotation contradicts its capacity, so the book divides total by count.
]

# Odd pods and nodes of which an audit reports each.
MOST_ODD: Final = 50

# A booking and its node.
Placed = tuple[str, Booking]


@dataclass(frozen=True, slots=True)
class Difference:
    """One pod or node of which the book is wrong, or that is odd. ``book`` and ``api`` are for people.

    ``is_assigned``: the plugin has let the pod's containers onto the card.
    """

    kind: DriftKind | OddKind
    namespace: str
    name: str
    uid: str
    units: int
    book: str = ""
    api: str = ""
    is_assigned: bool = False


# A difference, and how the book gets the listed state.
Suspect = tuple[Difference, Callable[[], object]]


class Round:
    """One audit; the caller sets ``book.touched`` to None after it.

    ``is_under_way`` answers for a pod (namespace, name, uid) whether a request of ours may still bind it.
    """

    def __init__(self, book: Book, is_under_way: Callable[[str, str, str], bool]) -> None:
        self._book = book
        self._is_under_way = is_under_way
        self._restores = book.restores
        self._touched: set[str] = set()
        book.touched = self._touched
        # The part of the book that the list has not shown yet.
        self._unseen = book.identities()
        self._unseen_nodes = set(book.snapshot().nodes)
        self._suspects: list[Suspect] = []
        self._assigned: Counter[tuple[str, int]] = Counter()
        self._over_committed: dict[tuple[str, int], Difference] = {}
        self.nodes = 0
        self.pods = 0
        self.odd: list[Difference] = []

    def see_node(self, node: Node) -> None:
        """One of the list."""
        name = node.metadata.name
        self.nodes += 1
        self._unseen_nodes.discard(name)
        self._compare_node(name, devices_of(node, self._book.unhealthy(name)), partial(self._book.set_node, node))
        self._note_odd(cards_in_conflict(node))

    def see_pod(self, pod: Pod) -> None:
        """One of the list."""
        self.pods += 1
        self._unseen.pop(pod.metadata.uid, None)
        wanted = self._wanted(pod)
        self._compare_pod(pod.metadata, pod, wanted, partial(self._book.correct, pod))
        if wanted is not None:
            self._look_at_cards(pod, *wanted)

    def end(self) -> list[Suspect]:
        """The list is whole: return the suspects."""
        listed, self._suspects = self._suspects, []
        for name in sorted(self._unseen_nodes):
            self._compare_node(name, None, partial(self._book.remove_node, name))
        for _, identity in sorted(self._unseen.items()):
            self._compare_pod(identity, None, None, partial(self._book.remove_pod, identity))
        for odd in self._over_committed.values():
            self._note_odd(odd)
        # Objects that are gone come first: another pod may have the name.
        return [*self._suspects, *listed]

    def settle(self, suspect: Suspect) -> Difference | None:
        """The difference that was corrected, once the watches have passed the list."""
        found, correct = suspect
        if self.has_moved(found):
            return None
        correct()
        return found

    def has_moved(self, found: Difference) -> bool:
        """Did it have an event since the list was asked for, or will a bind of ours change it?"""
        if self._is_under_way(found.namespace, found.name, found.uid):
            # For good: while it was under way nothing waited for the watch on its behalf.
            self._touched.add(found.uid)
        return found.uid in self._touched or self._book.restores != self._restores

    def _compare_node(self, name: str, listed: tuple[Device, ...] | None, correct: Callable[[], object]) -> None:
        """None stands for a node that is not there."""
        book = self._book.devices(name)
        if book != listed:
            kind: DriftKind = (
                "node_missing" if book is None else "node_phantom" if listed is None else "node_other_cards"
            )
            had, has = (Counter({device.index: device.total for device in cards or ()}) for cards in (book, listed))
            self._suspect(Difference(kind, "", name, name, _wrong(had, has), _cards(book), _cards(listed)), correct)

    def _compare_pod(
        self, identity: Booking | ObjectMeta, pod: Pod | None, wanted: Placed | None, correct: Callable[[], object]
    ) -> None:
        """``pod`` is None if the API has it no more."""
        book, uid, name = self._book, identity.uid, identity.name
        confirmed, assumed = book.confirmed(uid), book.assumptions(uid)
        pending = book.pending_pod(identity.namespace, name) if book.is_pending(identity) else None
        is_waiting = pod is not None and not pod.spec.node_name
        kind = _booked_kind(confirmed, assumed, wanted, is_waiting) or _pending_kind(
            pending, pod if is_waiting else None
        )
        if kind is not None:
            had, has = _amounts([*([confirmed] if confirmed else []), *assumed]), _amounts([wanted] if wanted else [])
            found = Difference(
                kind, identity.namespace, name, uid, _wrong(had, has),
                book=_text_of(had) or ("nothing" if pending is None else "pending"),
                api=_text_of(has) or ("gone" if pod is None else pod.spec.node_name or "not bound"),
                is_assigned=pod is not None and is_assigned(pod),
            )  # fmt: skip
            self._suspect(found, correct)

    def _wanted(self, pod: Pod) -> Placed | None:
        """The booking that the book must have of a listed pod; None if it holds nothing."""
        if not pod.spec.node_name or is_finished(pod):
            return None
        known, has_gap = self._book.known(pod)
        booking, _, _ = booking_of(pod, known, has_gap=has_gap)
        return (pod.spec.node_name, booking) if booking.units else None

    def _suspect(self, found: Difference, correct: Callable[[], object]) -> None:
        if not self.has_moved(found):
            self._suspects.append((found, correct))

    def _look_at_cards(self, pod: Pod, node: str, booking: Booking) -> None:
        """While a node shows no cards, any card is believed."""
        totals = {device.index: device.total for device in self._book.devices(node) or ()}
        placed = sum(units for index, units in booking.shares if not totals or index in totals)
        if placed < booking.units:
            metadata = pod.metadata
            where = f"{node}: {wire.ANNOTATION_INDEX}={(metadata.annotations or {}).get(wire.ANNOTATION_INDEX)}"
            missing = booking.units - placed
            self._note_odd(Difference("unplaced", metadata.namespace, metadata.name, metadata.uid, missing, api=where))
        if not is_assigned(pod) or sum(units for _, units in booking.shares) != booking.units:
            # Not let onto a card yet: as long as it is booked on more than it asks for, the plugin blocks it.
            return
        for index, units in booking.shares:
            # Summed up pod by pod: all cards of a large cluster in one go would let every request wait.
            self._assigned[node, index] += units
            assigned, total = self._assigned[node, index], totals.get(index)
            if total is not None and assigned > total:
                api = f"card {index}: {assigned} of {total} units assigned"
                odd = Difference("over_committed", "", node, f"{node}/{index}", assigned - total, api=api)
                self._over_committed[node, index] = odd

    def _note_odd(self, found: Difference | None) -> None:
        if found is not None and len(self.odd) < MOST_ODD:
            self.odd.append(found)


def cards_in_conflict(node: Node) -> Difference | None:
    """A cards annotation that the book does not believe."""
    if wire.ANNOTATION_CARDS not in (node.metadata.annotations or {}) or published_cards(node) is not None:
        return None
    name, units = node.metadata.name, capacity(node, wire.RESOURCE_MEMORY)
    why = described_cards(node).refusal or "annotation and capacity contradict each other"
    return Difference("cards_in_conflict", "", name, name, units, api=why)


def _booked_kind(
    confirmed: Placed | None, assumed: tuple[Placed, ...], wanted: Placed | None, is_waiting: bool
) -> DriftKind | None:
    if wanted is None:
        if confirmed is None and is_waiting:
            return "stale_assumption" if assumed else None
        return "phantom" if confirmed or assumed else None
    had = confirmed or next((one for one in assumed if one[0] == wanted[0]), assumed[0] if assumed else None)
    if had is None:
        return "missing"
    kind: DriftKind | None = "other_node" if had[0] != wanted[0] else _kind_of(had[1], wanted[1])
    if confirmed is not None:
        return kind or ("stale_assumption" if assumed else None)
    return "unconfirmed" if kind in (None, "other_details") else kind


def _kind_of(had: Booking, wanted: Booking) -> DriftKind | None:
    if (had.units, had.slots) != (wanted.units, wanted.slots):
        return "other_amount"
    if sorted(had.shares) != sorted(wanted.shares):
        return (
            "other_amount" if {card for card, _ in had.shares} == {card for card, _ in wanted.shares} else "other_card"
        )
    return None if had == wanted else "other_details"


def _pending_kind(pending: Pod | None, waiting: Pod | None) -> DriftKind | None:
    """For a pod with the right booking: as the book has it waiting, and as the list has."""
    if waiting is None:
        return None if pending is None else "pending_phantom"
    if pending is None:
        return "pending_missing"
    return None if pending.metadata.resource_version == waiting.metadata.resource_version else "pending_other"


def _wrong(had: Counter[Any], wanted: Counter[Any]) -> int:
    """The larger of two sums: units that are booked wrongly, and units that should be booked and are not."""
    return max((had - wanted).total(), (wanted - had).total())


def _text_of(amounts: Counter[tuple[str, int | None]]) -> str:
    """For a line of log: ``node:card=units``, "" for none."""
    return "+".join(f"{node}:{'?' if card is None else card}={units}" for (node, card), units in amounts.items())


def _amounts(bookings: Iterable[Placed]) -> Counter[tuple[str, int | None]]:
    """Units by node and card; no card for what lies on none."""
    found: Counter[tuple[str, int | None]] = Counter()
    for node, booking in bookings:
        for card, units in booking.shares:
            found[node, card] = units
        unsaid = booking.units - sum(units for _, units in booking.shares)
        if unsaid > 0:
            found[node, None] = unsaid
    return found


def _cards(devices: tuple[Device, ...] | None) -> str:
    if devices is None:
        return "not there"
    return (
        "+".join(f"{device.index}={device.total}{'' if device.healthy else '(unhealthy)'}" for device in devices)
        or "none"
    )
