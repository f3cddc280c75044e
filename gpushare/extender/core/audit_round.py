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

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Final

from gpushare.extender.core.audit_diff import (
    ODD_KINDS,
    STALE_ASSUMPTION,
    Difference,
    Drift,
    Known,
    assigned_shares,
    cards_disputed,
    gone_difference,
    node_difference,
    over_committed,
    pod_difference,
    unplaced,
    wanted_of,
)
from gpushare.extender.core.book import Book
from gpushare.manifests import Node, ObjectMeta, Pod
from gpushare.model.node import Booking, devices_of

# Odd pods and nodes that are remembered one by one; the rest is counted.
MOST_ODD: Final = 50


@dataclass(frozen=True, slots=True)
class Suspect:
    """A difference to look into. ``version`` is the resourceVersion that was listed; None if the list lacks the object."""

    difference: Difference
    is_node: bool
    version: str | None


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
        self._unseen = book.uids()
        self._unseen_pending = book.pending_keys()
        self._unseen_nodes = set(book.snapshot().nodes)
        self._suspects: dict[str, Suspect] = {}
        self._assigned: dict[tuple[str, int], int] = {}
        self._over_committed: dict[tuple[str, int], Difference] = {}
        self.nodes = 0
        self.pods = 0
        self.odd: list[Difference] = []
        self.odd_drift: dict[str, Drift] = dict.fromkeys(ODD_KINDS, Drift())

    def see_node(self, node: Node) -> None:
        """One of the list."""
        name = node.metadata.name
        self.nodes += 1
        self._unseen_nodes.discard(name)
        listed = devices_of(node, self._book.unhealthy(name))
        found = node_difference(name, self._book.devices(name), listed)
        self._suspect(found, node.metadata.resource_version, is_node=True)
        self._note_odd(cards_disputed(node))

    def see_pod(self, pod: Pod) -> None:
        """One of the list."""
        metadata = pod.metadata
        self.pods += 1
        self._unseen.discard(metadata.uid)
        known = self._known(metadata.namespace, metadata.name, metadata.uid)
        if known.pending is not None and known.pending.metadata.uid == metadata.uid:
            self._unseen_pending.discard((metadata.namespace, metadata.name))
        wanted = self._wanted(pod)
        self._suspect(self._drift(known, pod_difference(known, pod, wanted)), metadata.resource_version, is_node=False)
        if wanted is not None:
            node, booking = wanted
            self._note_odd(unplaced(pod, booking, self._book.devices(node)))
            for index, units in assigned_shares(pod, booking):
                self._let_onto(node, index, units)

    def end(self) -> list[Suspect]:
        """The list is whole: return the suspects."""
        for name in sorted(self._unseen_nodes):
            self._suspect(node_difference(name, self._book.devices(name), None), None, is_node=True)
        for uid in sorted(self._unseen):
            known = self._known("", "", uid)
            for _, booking in known.booked:
                found = gone_difference(known, booking.namespace, booking.name, uid)
                self._suspect(found, None, is_node=False)
        for namespace, name in sorted(self._unseen_pending):
            pending = self._book.pending_pod(namespace, name)
            if pending is not None:
                found = gone_difference(Known(pending=pending), namespace, name, pending.metadata.uid)
                self._suspect(found, None, is_node=False)
        for odd in self._over_committed.values():
            self._note_odd(odd)
        # Objects that are gone come first: another pod may have the name.
        return sorted(self._suspects.values(), key=lambda one: one.version is not None)

    def ask(self, suspect: Suspect) -> int | None:
        """Is it still worth a question? Then the mark of now, for the answer."""
        return None if self._has_moved(suspect.difference, self._mark) else self._book.events.mark()

    def answer_node(self, suspect: Suspect, got: Node | None, mark: int) -> Difference | None:
        """The difference that was corrected. ``got`` is the node as the API has it, None if it has none."""
        name = suspect.difference.name
        if self._has_moved(suspect.difference, mark) or _has_changed(suspect, got):
            return None
        listed = None if got is None else devices_of(got, self._book.unhealthy(name))
        found = node_difference(name, self._book.devices(name), listed)
        if found is None:
            return None
        if got is None:
            self._book.remove_node(name)
        else:
            self._book.set_node(got)
        return found

    def answer_pod(self, suspect: Suspect, got: Pod | None, mark: int) -> Difference | None:
        """The difference that was corrected. ``got`` is the pod as the API has it under that name, None if it has none."""
        old = suspect.difference
        if got is not None and got.metadata.uid != old.uid:
            got = None
        if self._has_moved(old, mark) or _has_changed(suspect, got):
            return None
        known = self._known(old.namespace, old.name, old.uid)
        if got is None:
            found = gone_difference(known, old.namespace, old.name, old.uid)
            self._book.remove_pod(ObjectMeta(name=old.name, namespace=old.namespace, uid=old.uid))
            return found
        found = self._drift(known, pod_difference(known, got, self._wanted(got)))
        if found is not None:
            self._book.correct(got)
        return found

    def _wanted(self, pod: Pod) -> tuple[str, Booking] | None:
        """The booking that the book must have of a listed pod."""
        return None if self._book.was_ended(pod) else wanted_of(pod, *self._book.known(pod))

    def _known(self, namespace: str, name: str, uid: str) -> Known:
        book = self._book
        return Known(book.confirmed(uid), book.assumptions(uid), book.pending_pod(namespace, name))

    def _drift(self, known: Known, found: Difference | None) -> Difference | None:
        """Without assumptions that a bind may still need."""
        if found is None or found.kind != STALE_ASSUMPTION:
            return found
        return found if any((found.uid, node) in self._old for node, _ in known.assumed) else None

    def _suspect(self, found: Difference | None, version: str | None, *, is_node: bool) -> None:
        if found is not None and not self._has_moved(found, self._mark):
            self._suspects.setdefault(found.uid, Suspect(found, is_node, version))

    def _has_moved(self, found: Difference, mark: int) -> bool:
        """Did it have an event since, or will a bind of ours change it?"""
        return self._book.events.since(found.uid, mark) or self._is_under_way(found.namespace, found.name, found.uid)

    def _let_onto(self, node: str, index: int, units: int) -> None:
        """Summed up pod by pod: all cards of a large cluster in one go would let every request wait."""
        total = self._assigned.get((node, index), 0) + units
        self._assigned[node, index] = total
        found = over_committed(node, index, total, self._book.devices(node))
        if found is not None:
            self._over_committed[node, index] = found

    def _note_odd(self, found: Difference | None) -> None:
        if found is None:
            return
        sums = self.odd_drift[found.kind]
        self.odd_drift[found.kind] = replace(sums, units=sums.units + found.units, objects=sums.objects + 1)
        if len(self.odd) < MOST_ODD:
            self.odd.append(found)


def _has_changed(suspect: Suspect, got: Node | Pod | None) -> bool:
    """Is it there, but not as it was listed?"""
    return got is not None and got.metadata.resource_version != suspect.version
