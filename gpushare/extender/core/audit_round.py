"""One comparison of the book with a list of the API, from the list's begin to the last correction. Plain functions, no I/O.

The list, the book and the answer to a later question are of different moments. A difference becomes a correction only so:

1. ``see_*`` and ``end`` find *suspects*: what the list and the book say differently, of objects of which the book has
   no event since before the list was asked for. If there was an event since, the book may know more than the list.
2. The caller waits until the watches have passed the version of the list: what was merely under way has come now.
3. ``ask`` drops every suspect that had an event since, and those with a bind of ours under way. For the others the caller asks
   the API for that one object (a GET without a version is answered from the newest state), and gives the answer to ``answer_*``.
4. The answer is believed only if the object had no event since the question, and no bind of it is under way. Then

   * *gone* (404, or another uid under the name) ends the booking: a uid never comes back, so this cannot take the card from a pod
     that was just bound, whatever happened between the answer and now;
   * *there, with the version that was listed* corrects the booking: it has not changed since the list, and the watch has gone
     past that without an event for it, so the event is lost. If the pod is deleted just now, that event is still to come: it will
     end the booking. Had it come before, the answer would not be believed;
   * *there, with another version* corrects nothing: the watch will bring the change, in its order with those of other pods. Book
     a single pod ahead of the watch, and of two pods that exchange their cards both may stand on one, the other looking free.

Such objects are looked at again by the next audit. An assumption is a bind in flight, not drift, unless it is old; it is
dropped only if the answer shows the pod unbound and no request of ours was under way from the question to the answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

from gpushare import wire
from gpushare.extender.core.belief import Belief, booking_of
from gpushare.extender.core.book import Book
from gpushare.manifests import Node, ObjectMeta, Pod
from gpushare.model.node import Booking, Device, capacity, described_cards, devices_of, published_cards
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

# Odd pods and nodes of which an audit reports each.
MOST_ODD: Final = 50

# A booking and its node.
Placed = tuple[str, Booking]


@dataclass(frozen=True, slots=True)
class Difference:
    """One pod or node of which the book is wrong, or that is odd. ``book`` and ``api`` are for people.

    ``version`` is the resourceVersion that was listed; None if the list lacks the object. ``is_assigned``: the plugin has let the
    pod's containers onto the card.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    units: int
    book: str = ""
    api: str = ""
    version: str | None = None
    is_node: bool = False
    is_assigned: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """All that the book has of one pod; ``pending`` is the version of which it knows that the pod waits."""

    confirmed: Placed | None = None
    assumed: tuple[Placed, ...] = ()
    pending: str | None = None

    @property
    def booked(self) -> tuple[Placed, ...]:
        """By the API and by assumption."""
        return (*(() if self.confirmed is None else (self.confirmed,)), *self.assumed)


class Round:
    """One audit. ``book.events`` must record from before the first ``Round`` call to after the last.

    ``is_under_way`` answers for a pod (namespace, name, uid) whether a request of ours may still bind it; ``old`` are the
    assumptions, by uid and node, that have lasted longer than a bind can.
    """

    def __init__(
        self,
        book: Book,
        is_under_way: Callable[[str, str, str], bool],
        old: Collection[tuple[str, str]] = (),
    ) -> None:
        self._book = book
        self._is_under_way = is_under_way
        self._old = old
        self._mark = book.events.mark()
        # The part of the book that the list has not shown yet.
        self._unseen = book.identities()
        self._unseen_nodes = set(book.snapshot().nodes)
        self._suspects: dict[str, Difference] = {}
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
        self._suspect(self._node_difference(name, node))
        self._note_odd(cards_disputed(node))

    def see_pod(self, pod: Pod) -> None:
        """One of the list."""
        self.pods += 1
        self._unseen.pop(pod.metadata.uid, None)
        self._suspect(self._pod_difference(pod.metadata, pod))
        wanted = self._wanted(pod)
        if wanted is not None:
            node, booking = wanted
            self._note_odd(unplaced(pod, booking, self._book.devices(node)))
            for index, units in assigned_shares(pod, booking):
                # Summed up pod by pod: all cards of a large cluster in one go would let every request wait.
                self._assigned[node, index] += units
                found = over_committed(node, index, self._assigned[node, index], self._book.devices(node))
                if found is not None:
                    self._over_committed[node, index] = found

    def end(self) -> list[Difference]:
        """The list is whole: return the suspects."""
        for name in sorted(self._unseen_nodes):
            self._suspect(self._node_difference(name, None))
        for _, metadata in sorted(self._unseen.items()):
            self._suspect(self._pod_difference(metadata, None))
        for odd in self._over_committed.values():
            self._note_odd(odd)
        # Objects that are gone come first: another pod may have the name.
        return sorted(self._suspects.values(), key=lambda one: one.version is not None)

    def ask(self, suspect: Difference) -> int | None:
        """Is it still worth a question? Then the mark of now, for the answer."""
        return None if self._has_moved(suspect, self._mark) else self._book.events.mark()

    def answer_node(self, suspect: Difference, got: Node | None, mark: int) -> Difference | None:
        """The difference that was corrected. ``got`` is the node as the API has it, None if it has none."""
        if self._has_moved(suspect, mark) or _has_changed(suspect, got):
            return None
        found = self._node_difference(suspect.name, got)
        if found is not None and got is None:
            self._book.remove_node(suspect.name)
        elif found is not None and got is not None:
            self._book.set_node(got)
        return found

    def answer_pod(self, suspect: Difference, got: Pod | None, mark: int) -> Difference | None:
        """The difference that was corrected. ``got`` is the pod as the API has it under that name, None if it has none."""
        if got is not None and got.metadata.uid != suspect.uid:
            got = None
        if self._has_moved(suspect, mark) or _has_changed(suspect, got):
            return None
        metadata = ObjectMeta(suspect.name, suspect.namespace, suspect.uid)
        found = self._pod_difference(metadata, got)
        if got is None:
            self._book.remove_pod(metadata)
        elif found is not None:
            self._book.correct(got)
        return found

    def _node_difference(self, name: str, node: Node | None) -> Difference | None:
        listed = None if node is None else devices_of(node, self._book.unhealthy(name))
        return node_difference(name, self._book.devices(name), listed, None if node is None else _version(node))

    def _pod_difference(self, metadata: Booking | ObjectMeta, pod: Pod | None) -> Difference | None:
        """Without assumptions that a bind may still need."""
        book, uid = self._book, metadata.uid
        pending = book.pending_pod(metadata.namespace, metadata.name)
        known = Known(
            book.confirmed(uid),
            book.assumptions(uid),
            _version(pending) if pending is not None and pending.metadata.uid == uid else None,
        )
        found = pod_difference(known, metadata, pod, None if pod is None else self._wanted(pod))
        if found is None or found.kind != STALE_ASSUMPTION:
            return found
        return found if any((uid, node) in self._old for node, _ in known.assumed) else None

    def _wanted(self, pod: Pod) -> Placed | None:
        """The booking that the book must have of a listed pod."""
        return None if self._book.was_ended(pod) else wanted_of(pod, *self._book.known(pod))

    def _suspect(self, found: Difference | None) -> None:
        if found is not None and not self._has_moved(found, self._mark):
            self._suspects[found.uid] = found

    def _has_moved(self, found: Difference, mark: int) -> bool:
        """Did it have an event since, or will a bind of ours change it?"""
        return self._book.events.since(found.uid, mark) or self._is_under_way(found.namespace, found.name, found.uid)

    def _note_odd(self, found: Difference | None) -> None:
        if found is not None and len(self.odd) < MOST_ODD:
            self.odd.append(found)


def pod_difference(
    known: Known, metadata: Booking | ObjectMeta, pod: Pod | None, wanted: Placed | None = None
) -> Difference | None:
    """The book's error about a pod, which is None if the API has it no more; None if both agree. ``wanted`` is ``wanted_of(pod)``.

    An assumption for a pod that is not bound is a bind in flight, unless it is old: the caller knows (``STALE_ASSUMPTION``).
    """
    waiting = _version(pod) if pod is not None and not pod.spec.node_name else None
    kind = _booked_kind(known, wanted, waiting is not None) or _pending_kind(known, waiting)
    if kind is None:
        return None
    had = known.booked
    return Difference(
        kind, metadata.namespace, metadata.name, metadata.uid,
        units=wrong_units(had, [wanted] if wanted else []),
        book=_text_of(had) or ("nothing" if known.pending is None else "pending"),
        api=_text_of([wanted] if wanted else []) or ("gone" if pod is None else pod.spec.node_name or "not bound"),
        version=None if pod is None else _version(pod),
        is_assigned=pod is not None and is_assigned(pod),
    )  # fmt: skip


def node_difference(
    name: str, book: tuple[Device, ...] | None, listed: tuple[Device, ...] | None, version: str | None = None
) -> Difference | None:
    """The book's error about a node's cards; None stands for a node that is not there."""
    if book == listed:
        return None
    kind = NODE_MISSING if book is None else NODE_PHANTOM if listed is None else NODE_OTHER_CARDS
    had = Counter({device.index: device.total for device in book or ()})
    has = Counter({device.index: device.total for device in listed or ()})
    units = max((had - has).total(), (has - had).total())
    return Difference(kind, "", name, name, units, _cards(book), _cards(listed), version, is_node=True)


def wanted_of(pod: Pod, known: Belief | None = None, has_gap: bool = True) -> Placed | None:
    """Node and booking that the book must have of a pod as the API shows it; None if it holds nothing.

    ``known`` is what the book believes of its cards already, and ``has_gap`` whether the book may have missed states of it.
    """
    node = pod.spec.node_name
    if not node or is_finished(pod):
        return None
    booking, _, _ = booking_of(pod, known, has_gap=has_gap)
    return (node, booking) if booking.units > 0 or booking.shares else None


def wrong_units(had: Iterable[Placed], wanted: Iterable[Placed]) -> int:
    """The larger of two sums: units that are booked wrongly, and units that should be booked and are not."""
    book, api = _amounts(had), _amounts(wanted)
    return max((book - api).total(), (api - book).total())


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


def _booked_kind(known: Known, wanted: Placed | None, is_waiting: bool) -> str | None:
    if wanted is None:
        if known.confirmed is not None or (known.assumed and not is_waiting):
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


def _pending_kind(known: Known, waiting: str | None) -> str | None:
    """For a pod with the right booking; ``waiting`` is the version of which the API shows that it waits."""
    if waiting is None or known.pending is None:
        missing = None if known.booked else PENDING_MISSING
        return (None if known.pending is None else PENDING_PHANTOM) if waiting is None else missing
    return None if known.pending == waiting else PENDING_OTHER


def _text_of(bookings: Iterable[Placed]) -> str:
    """For a line of log: ``node:card=units``, "" for none."""
    parts = [f"{node}:{'?' if card is None else card}={units}" for (node, card), units in _amounts(bookings).items()]
    return "+".join(parts)


def _amounts(bookings: Iterable[Placed]) -> Counter[tuple[str, int | None]]:
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


def _version(one: Node | Pod) -> str:
    return one.metadata.resource_version


def _has_changed(suspect: Difference, got: Node | Pod | None) -> bool:
    """Is it there, but not as it was listed?"""
    return got is not None and _version(got) != suspect.version
