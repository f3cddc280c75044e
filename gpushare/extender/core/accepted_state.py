"""Which cards a bound pod has: those of its Binding, and later ones only if the device plugin can have written them. Pure.

The author of a pod may change its annotations at any time, and the containers still have the cards that they were started on.
So the book remembers by uid what was bound. Two programs write a card: an extender once, with the Binding; and the device plugin,
which changes the index of a pod on one card before its containers start, in steps (``deviceplugin/core/repair``)::

    index x                     as bound
    index x, mark y             the pod is booked on both cards
    index y, mark x             again on both; a pod that has no ids yet goes to (index y) immediately
    index y                     the repair is done

A watch shows every step; a list after a broken watch (a *gap*) shows the last one only. From that follow the rules:

* The first valid allocation that is seen of a pod counts: it is the Binding's, or the plugin's for a pod bound by hand.
* Before the pod was started a step of a repair counts, also one from a card in conflict. Another index without a mark is no
  step, so it changes nothing. After a gap it may be the end of a repair, so both cards are booked, which is called a *conflict*.
* The first state in which the pod is seen started freezes the cards. If that state names a card which was never marked, it is in
  conflict: a plugin that was started in between may have let the containers onto it. After that a mark may only go away.
* A later state that names the card of the Binding again is in conflict with the end of a repair that was seen: the plugin writes
  that card back if the repair was the author's invention.
* An allocation that is gone, that cannot be read, or that is spread over other cards, changes nothing.

A conflict books the pod on all cards in question, so no card that its containers may hold looks free. It ends in
favour of the card that two audits in a row find named, on a node where our plugin runs: the plugin corrects an annotation that
contradicts the kubelet.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gpushare import wire
from gpushare.errors import GpushareError
from gpushare.manifests import Pod
from gpushare.model.allocation import Allocation, Shares, read_allocation
from gpushare.model.eviction import FIXED, evictable_of, shared
from gpushare.model.limits import unlimited_cards
from gpushare.model.node import Booking
from gpushare.model.pod import pod_request, slot_request, was_started
from gpushare.model.wishes import wishes_or_none

# How a problem begins that is a change which was not believed; the pod is booked.
IGNORED: Final = "later changes of its annotations are not believed"
# Audits that find the same card named before a conflict ends.
_AUDITS: Final = 2


class AcceptedState(Struct, frozen=True, gc=False):
    """The cards of one pod, as the book believes.

    ``shares`` are the cards with its units; ``mark`` is the other card of a repair under way; ``in_conflict`` are cards that it may
    have instead. ``origin`` is the first card that was believed. ``named`` is what was read last, and ``audits`` how many audits
    have found that. ``card_size`` is the size of the card when the pod was bound, which shows the unit of the amounts.
    """

    shares: Shares
    mark: int | None = None
    in_conflict: frozenset[int] = frozenset()
    origin: int = -1
    is_started: bool = False
    named: Shares = ()
    audits: int = 0
    card_size: int = 0

    @property
    def booked(self) -> Shares:
        """All cards that the pod may have, each with its units."""
        units = sum(amount for _, amount in self.shares)
        others = {*self.in_conflict, *(() if self.mark is None else (self.mark,))} - {card for card, _ in self.shares}
        return tuple(sorted([*self.shares, *((card, units) for card in others)]))


def bound_to(shares: Shares, card_size: int) -> AcceptedState:
    """The accepted state of a pod that the API server has bound with these shares."""
    return AcceptedState(shares, origin=shares[0][0], named=shares, card_size=card_size)


def accept(
    known: AcceptedState | None, named: Allocation | None, *, is_started: bool, has_gap: bool
) -> AcceptedState | None:
    """The accepted state of a pod that the API shows with this allocation; None as long as it never had a valid one.

    ``has_gap``: states between the one before and this one may not have been seen.
    """
    if named is None:
        return None if known is None else replace(known, is_started=known.is_started or is_started)
    if known is None:
        return replace(bound_to(named.shares, named.card_size), mark=named.repair, is_started=is_started)
    if len(known.shares) == len(named.shares) == 1:
        # On one card the amount is what the pod's spec asks for, and annotations do not count.
        known = replace(known, shares=((known.shares[0][0], named.units),))
    now = replace(known, is_started=known.is_started or is_started)
    if named.shares != known.named:
        now = replace(now, named=named.shares, audits=0)
    if named.shares == known.shares:
        may_mark = not known.is_started or named.repair in (None, known.mark)
        return replace(now, mark=named.repair if may_mark else known.mark)
    if len(known.shares) > 1 or len(named.shares) > 1:
        return now
    return _moved(known, now, named, has_gap)


def _moved(known: AcceptedState, now: AcceptedState, named: Allocation, has_gap: bool) -> AcceptedState:
    """A pod of one card is shown on another one."""
    before, card = known.shares[0][0], named.index
    if not known.is_started:
        if card == known.mark or named.repair == before:
            return replace(now, shares=named.shares, mark=named.repair, in_conflict=known.in_conflict - {card})
        if has_gap or card in known.in_conflict:
            return replace(now, mark=named.repair, in_conflict=known.in_conflict | {card})
    is_first_started = now.is_started and not known.is_started
    others = known.in_conflict - {known.origin, known.mark}
    if card in (known.origin, known.mark) or (is_first_started and not others):
        return replace(now, in_conflict=known.in_conflict | {card})
    return now


def audited(accepted: AcceptedState) -> AcceptedState:
    """The accepted state after one more audit found the pod as it was seen last."""
    if not accepted.in_conflict or len(accepted.named) != 1 or accepted.named[0][0] not in _cards(accepted):
        return accepted
    if accepted.audits + 1 < _AUDITS:
        return replace(accepted, audits=accepted.audits + 1)
    mark = None if accepted.mark == accepted.named[0][0] else accepted.mark
    return replace(accepted, shares=accepted.named, mark=mark, in_conflict=frozenset(), audits=0)


def _cards(accepted: AcceptedState) -> frozenset[int]:
    return accepted.in_conflict | {card for card, _ in accepted.shares}


def problem_of(accepted: AcceptedState, named: Allocation | None, reason: str | None) -> str | None:
    """Which change of the pod's annotations is not believed, for a person; ``reason`` is why they cannot be read."""
    bound = " and ".join(f"card {card}" for card, _ in accepted.booked)
    if named is None:
        return f"they name no card any more ({reason or 'removed'}); the pod stays booked on {bound}"
    if accepted.in_conflict and named.index in _cards(accepted):
        return f"they name card {named.index}, without the marks of a repair; until that is certain {bound} are booked"
    if named.shares != accepted.shares:
        cards = " and ".join(f"{units} units of card {card}" for card, units in named.shares[:16])
        return f"they name {cards}, and the pod was bound to another place; it stays booked on {bound}"
    if named.repair != accepted.mark:
        return f"{wire.ANNOTATION_REPAIR} names card {named.repair}, and the pod has been started; it stays booked on {bound}"
    return None


def booking_of(
    pod: Pod, known: AcceptedState | None = None, *, has_gap: bool = True
) -> tuple[Booking, AcceptedState | None, str | None]:
    """The booking of a bound pod, the accepted state of its cards, and what is wrong with it.

    Unreadable numbers book nothing, and an allocation that cannot be read books no card unless one is ``known``.
    """
    units = slots = 0
    accepted, problem = known, None
    try:
        units, slots = pod_request(pod), slot_request(pod)
    except GpushareError as error:
        problem = str(error)
    if units > 0:
        named, problem = read_allocation(pod, pod.metadata.annotations)
        accepted = accept(known, named, is_started=was_started(pod), has_gap=has_gap)
        if accepted is not None:
            ignored = problem_of(accepted, named, problem)
            problem = None if ignored is None else f"{IGNORED}: {ignored}"
    metadata = pod.metadata
    # While the device plugin changes a pod's card it is on both: nothing may be put onto its present card or its next one.
    shares = shared(accepted.booked) if accepted is not None and units > 0 else ()
    card_size = accepted.card_size if accepted is not None else 0
    evictable = evictable_of(pod) if units > 0 else FIXED
    unlimited = unlimited_cards(pod, dict(shares))
    identity = metadata.uid, metadata.namespace, metadata.name
    booking = Booking(*identity, units, shares, slots, wishes_or_none(pod).group, evictable, card_size, unlimited)
    return booking, shared(accepted), problem
