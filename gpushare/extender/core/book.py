"""The book: which pod holds which card. The only mutable state of the extender.

A pod's booking on a node lives through these states; everything not drawn leaves the book as it is::

              assume()                      set_pod(bound)
    (nothing) ────────► Assumed ──────────────────────────► Confirmed
                           │                                    │
                           │ forget()  (the API refused)        │ remove_pod() or set_pod(finished):
                           │ remove_pod() (the pod is gone)     │ the containers are gone
                           ▼                                    ▼
                        (nothing)                            (nothing)

Assumptions, each with its test:

* The API is the truth. A pod that the API shows bound is booked on that node, and every assumption for it ends.
* A pod is its uid. A pod re-created under the same name is another pod (defect D17), in whatever order events come.
* What is gone stays gone: an answer or event that is older than the end of a pod does not bring it back. Only a restore of
  etcd does (``restart_history``).
* An event without a node never ends an assumption: it may be older than the bind.
* A pod being deleted keeps its card until it is gone or finished with no container running (defect D15).
* Bookings outlive the Node object: a node that is deleted and comes back still has its pods.
* Nothing is fixed at first sight: every node event lays the node's pods out again (defects D13, D14).

All methods are plain functions for one thread: a caller that does not await sees one consistent state.
"""

from __future__ import annotations

import sys
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from gpushare import wire
from gpushare.extender.core.accepted_state import AcceptedState, audited, booking_of, bound_to
from gpushare.extender.core.filter import MOST_REQUESTS, KnownAnswers
from gpushare.extender.core.reservations import Fate, State
from gpushare.extender.core.workload import Workload
from gpushare.foreign import version_number
from gpushare.manifests import DisruptionBudget, Node, ObjectMeta, Pod
from gpushare.model.eviction import kept_budget
from gpushare.model.node import Booking, Device, NodeDevices, NodeInfo, lay_out, read_devices
from gpushare.model.placement import Snapshot
from gpushare.model.pod import is_deleting, is_finished, kept_of
from gpushare.model.waiting import Wait, wait_of
from gpushare.model.wishes import wishes_or_none

# How many ended pods are remembered: far more than can end while one request is under way.
ENDED_REMEMBERED: Final = 10_000
# The version of what was seen in a history that the API server has lost.
_LOST: Final = -1


class Book:
    """Nodes with their cards, and the pods booked on them."""

    def __init__(self, workload: Workload | None = None, *, most_requests: int = MOST_REQUESTS) -> None:
        """``workload`` counts what the policy ``fragmentation`` asks for; ``most_requests`` are remembered with their answers."""
        # By node, with nothing booked: the cards that its Node object shows, and the same after the declared ones are unhealthy.
        self._shown: dict[str, NodeDevices] = {}
        self._unhealthy: dict[str, frozenset[int]] = {}
        self._cards: dict[str, NodeDevices] = {}
        self._infos: dict[str, NodeInfo] = {}
        # By node, then by uid: a pod is on a node either by the API or by assumption.
        self._bookings: dict[str, dict[str, Booking]] = {}
        # By uid: the node that the API shows, and the resourceVersion that was seen last, or ``_LOST``.
        self._bound: dict[str, tuple[str, int]] = {}
        # By uid: the node of a bound pod, and what is believed of its cards there.
        self._accepted: dict[str, tuple[str, AcceptedState]] = {}
        # Uids of confirmed pods that are booked on more cards than they can have.
        self._in_conflict: set[str] = set()
        # By uid: the nodes on which the pod is assumed.
        self._assumed: dict[str, set[str]] = {}
        # By uid: the nodes of pods that cannot be read, and of which nothing was known there before.
        self._unreadable: dict[str, str] = {}
        self._pending: dict[tuple[str, str], Pod] = {}
        # The pending pods that wait for a card.
        self._waits: dict[tuple[str, str], tuple[Pod, Wait]] = {}
        # Uids of pods that were seen to end, oldest first; a uid never comes back, so a late event of it is old.
        self._ended: dict[str, None] = {}
        self.restores = 0
        self._budgets: dict[tuple[str, str], DisruptionBudget] = {}
        self._workload = workload or Workload()
        self._snapshot = Snapshot(
            MappingProxyType(self._infos),
            self._workload.forecast,
            self._workload.free_cpu,
            MappingProxyType(self._budgets),
        )
        self._answers = KnownAnswers(self._infos, most_requests)
        self._workload.on_change = self._answers.changed_cost
        # Nothing is laid out until the first snapshot: the first list changes each node once for every pod that it has.
        self._is_looked_at = False
        self.touched: set[str] | None = None
        """Uids of pods and names of nodes that had an event, old or new, since an audit set this: it believes no list over it."""

    def snapshot(self) -> Snapshot:
        """All nodes as they are now, for a caller that does not await: a copy of 5,000 would take longer than a filter."""
        if not self._is_looked_at:
            self._is_looked_at = True
            # New strings side by side: a filter reads hundreds of them, and few of 5,000 are in a processor's cache.
            self._lay_out(*"\n".join(self._cards).split("\n"))
        return self._snapshot

    @property
    def answers(self) -> KnownAnswers:
        """The answers of nodes to usual questions; like a snapshot, they must be read without an await."""
        self.snapshot()
        return self._answers

    def fate_of(self, pod: Booking | ObjectMeta) -> Fate:
        """The fate of a pod; UNKNOWN if the watch has not shown it (yet).

        A pod that is being deleted is as good as gone: the API server binds it no more, though a finalizer may keep it for long.
        """
        if pod.uid in self._ended:
            return Fate(State.GONE)
        if pod.uid in self._bound:
            return Fate(State.BOUND, self._bound[pod.uid][1])
        if not self.is_pending(pod):
            return Fate(State.UNKNOWN)
        return Fate(State.GONE if is_deleting(self._pending[pod.namespace, pod.name]) else State.PENDING)

    def pending_pod(self, namespace: str, name: str) -> Pod | None:
        """The pod as the API last showed it, if that was not yet bound."""
        return self._pending.get((namespace, name))

    def waiting(self) -> tuple[tuple[Pod, Wait], ...]:
        """The pods that wait for a card, as the API showed each last."""
        return tuple(self._waits.values())

    def is_pending(self, pod: Booking | ObjectMeta) -> bool:
        """Is this very pod there, and not yet bound?"""
        pending = self._pending.get((pod.namespace, pod.name))
        return pending is not None and pending.metadata.uid == pod.uid

    def booked_pods(self) -> tuple[int, int]:
        """How many pods have units by the API, and how many by assumption alone."""
        return len(self._bound), len(self._assumed)

    # Nodes

    def set_node(self, node: Node) -> bool:
        """A node is new or changed. Answers whether it has other cards than it had."""
        name = node.metadata.name
        self.touch(name)
        before = self._indices(name)
        self._shown[name] = read_devices(node)
        self._workload.set_node(node)
        self._read_devices(name)
        return self._indices(name) != before

    def remove_node(self, name: str) -> None:
        """A Node object is gone; its pods stay booked until they are gone too."""
        self.touch(name)
        self._shown.pop(name, None)
        self._cards.pop(name, None)
        self._infos.pop(name, None)
        self._workload.remove_node(name)
        self._answers.changed(name)

    def set_unhealthy(self, name: str, indices: frozenset[int]) -> None:
        """These cards of a node were declared unhealthy (by the ConfigMap of the contract); an empty set ends that."""
        self.touch(name)
        if indices:
            self._unhealthy[name] = indices
        else:
            self._unhealthy.pop(name, None)
        if name in self._shown:
            self._read_devices(name)

    # Pods

    def set_pod(self, pod: Pod, *, has_gap: bool = True) -> str | None:
        """A pod is new or changed. Answers what is wrong with its numbers or annotations, if anything is.

        ``has_gap``: states of it before this one may have been missed, as with a list and with an answer to a question.
        """
        # One text for all pods of a node.
        uid, node = pod.metadata.uid, sys.intern(pod.spec.node_name or "")
        self.touch(uid)
        if uid in self._ended or self._is_old(pod):
            return None
        self._forget_unreadable(uid)
        if not node:
            self._set_pending(pod)
            return None
        self._forget_pending(pod.metadata)
        if is_finished(pod):
            self._end(uid)
            return None
        known, has_gap = self.known(pod, has_gap=has_gap)
        booking, accepted, problem = booking_of(pod, known, has_gap=has_gap)
        self._workload.set_pod(pod, node)
        if self._bound.get(uid, (node,))[0] != node or not booking.units:
            self._drop(uid)
        touched = self._end_assumptions(uid)
        # Most pods have no cards, and most events of one that has are about something else: its node is as it was.
        if booking.units and self._bookings.get(node, {}).get(uid) != booking:
            touched.add(node)
        if booking.units:
            self._confirm(pod, node, booking, accepted)
        self._lay_out(*touched)
        return problem or self._misplaced(node, booking)

    def set_unreadable(self, metadata: ObjectMeta, node: str) -> None:
        """A pod is there that cannot be read; ``node`` is "" if it is not bound.

        Its booking stays as it is. If it has none on that node, it may hold any card there: the node gets no pods until it is gone.
        """
        uid = metadata.uid
        self.touch(uid)
        if node and uid not in self._ended and uid not in self._bookings.get(node, {}):
            self._forget_unreadable(uid)
            self._unreadable[uid] = node
            self._lay_out(node)

    def remove_pod(self, metadata: Booking | ObjectMeta) -> None:
        """A pod is gone from the API, so its containers are too (a force-deleted pod is the documented exception)."""
        self.touch(metadata.uid)
        self._forget_unreadable(metadata.uid)
        self._forget_pending(metadata)
        self._end(metadata.uid)

    def placed_on(self, node: str) -> list[tuple[Booking, str | None]]:
        """Pods that the API shows there with cards named, and what is wrong with those of each."""
        bookings = self._bookings.get(node, {}).values()
        placed = [one for one in bookings if one.shares and node not in self._assumed.get(one.uid, ())]
        return [(booking, self._misplaced(node, booking)) for booking in placed]

    def assumed(self, uid: str, node: str) -> Booking | None:
        """The assumed booking of a pod on a node."""
        return self._bookings[node][uid] if node in self._assumed.get(uid, ()) else None

    def assume(self, node: str, booking: Booking, cpu_milli: int = 0) -> None:
        """Book before the API knows; ``cpu_milli`` is what the pod asks for beside cards.

        Raises ValueError for a pod that is booked there already, or has ended.
        """
        if booking.uid in self._ended:
            raise ValueError(f"pod {booking.namespace}/{booking.name} ({booking.uid}) has ended")
        if booking.uid in self._bookings.get(node, {}):
            raise ValueError(f"pod {booking.namespace}/{booking.name} ({booking.uid}) is already booked on {node}")
        self.touch(booking.uid)
        self._put(node, booking)
        self._assumed.setdefault(booking.uid, set()).add(node)
        self._workload.put(booking.uid, node, cpu_milli)
        self._lay_out(node)

    def forget(self, uid: str, node: str) -> None:
        """The API refused the bind: the assumption ends. A confirmed booking stays."""
        self.touch(uid)
        nodes = self._assumed.get(uid, set())
        if node in nodes:
            nodes.remove(node)
            self._take(node, uid)
            self._workload.forget(uid, node, min(nodes, default=""))
            self._lay_out(node)
        if not nodes:
            self._end_assumptions(uid)

    def bound(self, metadata: ObjectMeta, node: str, cpu_milli: int) -> None:
        """The API bound a pod, as the watch will show. A pod without cards was not assumed: its CPU counts from now on.

        If the watch does not show the pod waiting, it may be ahead already, or never show it at all.
        """
        self.touch(metadata.uid)
        assumed = self.assumed(metadata.uid, node)
        if assumed is not None:
            self._accept(metadata.uid, node, bound_to(assumed.shares, assumed.card_size))
        if self.is_pending(metadata):
            self._workload.put(metadata.uid, node, cpu_milli)

    def restart_history(self) -> None:
        """The API server's history of pods went back, and a list of the restored state follows: see ``reflector.Handler``.

        No end that was seen counts. A booking stays until the list shows its pod, or until the pod is removed because the list
        lacks it: until then the containers may still run. A pod that was bound and is shown unbound loses its booking;
        an assumption does not: its bind may be under way, and if it is not, the next audit ends it.
        """
        self.restores += 1
        self._ended.clear()
        self._bound = {uid: (node, _LOST) for uid, (node, _) in self._bound.items()}

    # Other inputs of a decision

    def set_budget(self, budget: DisruptionBudget) -> None:
        """A PodDisruptionBudget is new or changed."""
        self._budgets[budget.metadata.namespace, budget.metadata.name] = kept_budget(budget)

    def remove_budget(self, metadata: ObjectMeta) -> None:
        """It is gone."""
        self._budgets.pop((metadata.namespace, metadata.name), None)

    # For the audit

    def touch(self, key: str) -> None:
        """A pod (uid) or node (name) has an event, or a bind of a pod that is assumed already is under way again."""
        if self.touched is not None:
            self.touched.add(key)

    def identities(self) -> dict[str, Booking | ObjectMeta]:
        """By uid: the pods that hold a card, are assumed to, or wait."""
        found: dict[str, Booking | ObjectMeta] = {one.metadata.uid: one.metadata for one in self._pending.values()}
        for bookings in self._bookings.values():
            found.update(bookings)
        return found

    def confirmed(self, uid: str) -> tuple[str, Booking] | None:
        """Node and booking of a pod that the API showed bound."""
        if uid not in self._bound:
            return None
        node, _ = self._bound[uid]
        return node, self._bookings[node][uid]

    def assumptions(self, uid: str) -> tuple[tuple[str, Booking], ...]:
        """Where a pod is assumed; nearly always on one node."""
        return tuple((node, self._bookings[node][uid]) for node in sorted(self._assumed.get(uid, ())))

    def known(self, pod: Pod, *, has_gap: bool = True) -> tuple[AcceptedState | None, bool]:
        """The accepted state of a bound pod, and whether states of it may have been missed before this one."""
        uid = pod.metadata.uid
        on, accepted = self._accepted.get(uid, ("", None))
        if on != pod.spec.node_name:
            return None, has_gap
        return accepted, has_gap and self._bound.get(uid, ("", -1))[1] != version_number(pod.metadata.resource_version)

    def audited(self) -> None:
        """An audit has ended, so a conflict over a pod's card is one audit older. It can end only on a node of our plugin."""
        for uid in tuple(self._in_conflict):
            node, before = self._accepted[uid]
            if any(device.uuid for device in self.devices(node) or ()):
                accepted = audited(before)
                self._accept(uid, node, accepted)
                self.touch(uid)
                self._put(node, replace(self._bookings[node][uid], shares=accepted.booked))
                self._lay_out(node)

    def devices(self, name: str) -> tuple[Device, ...] | None:
        """A node's cards with nothing booked, by its last event; None if the node is not known."""
        return self._cards[name].devices if name in self._cards else None

    def refusal_of(self, name: str) -> str | None:
        """Why no pod may have a card of this node, None if pods may."""
        return self._cards[name].published.refusal if name in self._cards else None

    def unhealthy(self, name: str) -> frozenset[int]:
        """Its cards that are declared unhealthy."""
        return self._unhealthy.get(name, frozenset())

    def correct(self, pod: Pod) -> None:
        """The pod as the API has it now, for certain: nothing that was known of it before counts, not even its end.

        Only for an answer that is newer than every event of this pod, with no bind of it under way.
        """
        uid = pod.metadata.uid
        _, has_gap = self.known(pod)
        self._ended.pop(uid, None)
        self._unbind(uid)
        if not pod.spec.node_name:
            self._accepted.pop(uid, None)
        self.set_pod(pod, has_gap=has_gap)

    # Inside

    def _forget_unreadable(self, uid: str) -> None:
        if node := self._unreadable.pop(uid, ""):
            self._lay_out(node)

    def _forget_pending(self, metadata: Booking | ObjectMeta) -> None:
        if self.is_pending(metadata):
            del self._pending[metadata.namespace, metadata.name]
            self._waits.pop((metadata.namespace, metadata.name), None)

    def _set_pending(self, pod: Pod) -> None:
        if self._bound.get(pod.metadata.uid, ("", 0))[1] == _LOST:
            self._unbind(pod.metadata.uid)
            self._accepted.pop(pod.metadata.uid, None)
        key, kept = (pod.metadata.namespace, pod.metadata.name), kept_of(pod)
        self._pending[key] = kept
        wait = wait_of(kept)
        if wait is None:
            self._waits.pop(key, None)
        else:
            self._waits[key] = kept, wait

    def _is_old(self, pod: Pod) -> bool:
        """Is this state older than the one that is known of this bound pod? An answer may be ahead of the watch."""
        _, seen = self._bound.get(pod.metadata.uid, ("", 0))
        return bool(pod.spec.node_name) and 0 < version_number(pod.metadata.resource_version) < seen

    def _unbind(self, uid: str) -> None:
        self._drop(uid)
        self._workload.leave_node(uid)

    def _confirm(self, pod: Pod, node: str, booking: Booking, accepted: AcceptedState | None) -> None:
        uid = booking.uid
        if accepted is not None:
            self._workload.note(pod, booking, wishes_or_none(pod))
            self._accept(uid, node, accepted)
        self._bound[uid] = node, version_number(pod.metadata.resource_version)
        self._put(node, booking)

    def _accept(self, uid: str, node: str, accepted: AcceptedState) -> None:
        self._accepted[uid] = (node, accepted)
        self._in_conflict.discard(uid)
        if accepted.in_conflict:
            self._in_conflict.add(uid)

    def _end_assumptions(self, uid: str) -> set[str]:
        """The nodes on which the pod was assumed; the caller lays them out, once all is entered."""
        nodes = self._assumed.pop(uid, set())
        for node in nodes:
            self._take(node, uid)
        return nodes

    def _end(self, uid: str) -> None:
        self._workload.remove_pod(uid)
        self._drop(uid)
        self._accepted.pop(uid, None)
        self._ended[uid] = None
        if len(self._ended) > ENDED_REMEMBERED:
            del self._ended[next(iter(self._ended))]

    def _drop(self, uid: str) -> None:
        touched = self._end_assumptions(uid)
        if uid in self._bound:
            node, _ = self._bound.pop(uid)
            self._in_conflict.discard(uid)
            self._take(node, uid)
            touched.add(node)
        self._lay_out(*touched)

    def _misplaced(self, node: str, booking: Booking) -> str | None:
        """The fault of a booking that names a card which its node does not have."""
        indices = self._indices(node)
        wrong = [index for index, _ in booking.shares if index not in indices]
        if not wrong or not indices:
            return None
        rest = "what else they name is booked" if len(wrong) < len(booking.shares) else "booked on none"
        return f"annotations name card {wrong[0]}, but node {node} has the cards {sorted(indices)}: {rest}"

    def _indices(self, node: str) -> set[int]:
        return {device.index for device in self.devices(node) or ()}

    def _read_devices(self, name: str) -> None:
        self._cards[name] = self._shown[name].without(self.unhealthy(name))
        self._lay_out(name)

    def _put(self, node: str, booking: Booking) -> None:
        """Enter one booking, in the place of the pod's former one on that node."""
        self._bookings.setdefault(node, {})[booking.uid] = booking

    def _take(self, node: str, uid: str) -> None:
        """Remove one booking and leave no empty entry behind: nodes come and go for years."""
        of_node = self._bookings[node]
        del of_node[uid]
        if not of_node:
            del self._bookings[node]

    def _lay_out(self, *names: str) -> None:
        for name in names if self._is_looked_at else ():
            if name in self._cards:
                cards = self._cards[name]
                if name in self._unreadable.values():
                    cards = cards.closed(wire.REASON_UNREADABLE_POD)
                bookings = self._bookings.get(name, {}).values()
                self._infos[name] = lay_out(name, cards.devices, bookings, cards.published)
                self._answers.changed(name)
