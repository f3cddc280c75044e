"""Which pods must end so that one gets a card: the answer to kube-scheduler's preempt. Pure.

The scheduler proposes nodes and, on each, victims that leave enough of everything in sum; it knows nothing of cards. Here the
victims of each node become those whose end frees one sufficient card. A node is dropped if no end of pods of lower priority
does that. As in the scheduler's own search, all of these are taken off (one card, or the node), and then as many as possible are
kept: first those with an eviction that would break a PodDisruptionBudget, and always the one of highest priority first.

A proposed victim that is of no use for the card is spared only if that is safe: it shares cards too, it and the preemptor ask for
nothing but resources, and the other victims give back as much of these. Otherwise the pod would not fit after all, and its victims
would have died for nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from gpushare.model.eviction import Amounts, Budgets, by_namespace, protected
from gpushare.model.node import Booking, NodeInfo, laid_out_with, units_on
from gpushare.model.placement import Question, Snapshot, reason_against

# Half of the range of priorities, which are 32 bits wide.
_OFFSET: Final = 2**31


@dataclass(frozen=True, slots=True)
class Preemptor:
    """The pod that wants a card: its priority, what it asks for of other resources, and whether a scheduler looks at more."""

    asked: Question
    priority: int
    others: Amounts = ()
    is_entangled: bool = False


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods of a node that must end, by uid, and how many of them are protected by a budget that is used up."""

    uids: tuple[str, ...]
    violations: int = 0


def preempt(preemptor: Preemptor, proposed: Mapping[str, Victims], snapshot: Snapshot) -> dict[str, Victims]:
    """The victims of every node on which the end of pods helps; nodes on which it does not are left out."""
    if preemptor.asked.request.units == 0:
        return dict(proposed)
    found: dict[str, Victims] = {}
    budgets = by_namespace(snapshot.budgets.values())
    for name, victims in proposed.items():
        node = snapshot.nodes.get(name)
        chosen = None if node is None else _victims_on(node, preemptor, victims, budgets)
        if chosen is not None:
            found[name] = chosen
    return found


def _victims_on(node: NodeInfo, preemptor: Preemptor, proposed: Victims, budgets: Budgets) -> Victims | None:
    """None if the pod gets no card here even if all pods of lower priority end."""
    known = {booking.uid: booking for booking in node.bookings}
    lower = _by_worth(node.bookings, preemptor.priority)
    broken = protected(((one.namespace, one.name, one.evictable) for one in lower), budgets)
    violating = dict(zip((one.uid for one in lower), broken, strict=True))
    lower.sort(key=lambda one: not violating[one.uid])
    needed = _needed(node, lower, preemptor.asked, violating, proposed.uids)
    if needed is None:
        return None
    if not _are_enough(node, needed, proposed, preemptor, known):
        needed = needed | set(proposed.uids)
    uids = (*(uid for uid in proposed.uids if uid in needed or uid not in known), *sorted(needed - set(proposed.uids)))
    kept = proposed.violations if set(proposed.uids) <= set(uids) else 0
    return Victims(uids, max(kept, sum(violating.get(uid, False) for uid in uids)))


def _needed(
    node: NodeInfo, lower: Sequence[Booking], asked: Question, violating: Mapping[str, bool], proposed: Collection[str]
) -> Set[str] | None:
    """The pods whose end costs least, among sets whose end gives a card; between equal ones those that were proposed.

    ``lower`` are the most worth keeping first.
    """
    on_one_card = [[one for one in lower if units_on(one, device.index)] for device in node.devices]
    found = [
        _reprieved(node, pods, asked)
        for pods in (*on_one_card, lower)
        if not reason_against(_without(node, {one.uid for one in pods}), asked)
    ]
    known = {one.uid: one for one in lower}
    return min(
        found,
        key=lambda uids: (_cost([known[uid] for uid in uids], violating), len(uids - set(proposed)), sorted(uids)),
        default=None,
    )


def _reprieved(node: NodeInfo, pods: Iterable[Booking], asked: Question) -> Set[str]:
    """Those of the pods that must end, after each was kept that may stay."""
    ended = {one.uid for one in pods}
    for one in pods:
        if not reason_against(_without(node, ended - {one.uid}), asked):
            ended.remove(one.uid)
    return ended


def _cost(pods: Iterable[Booking], violating: Mapping[str, bool]) -> tuple[int, int, int, int]:
    """As the scheduler compares nodes: broken budgets, the highest priority, all priorities together, how many. Least is best.

    Priorities are 32 bits wide and may be negative; each pod counts more than any difference between priorities below it. A
    pod that goes anyway costs nothing.
    """
    dying = [(one.uid, one.evictable.priority) for one in pods if not one.evictable.is_ending]
    return (
        sum(violating[uid] for uid, _ in dying),
        max((priority for _, priority in dying), default=-_OFFSET),
        sum(priority + _OFFSET for _, priority in dying),
        len(dying),
    )


def _by_worth(bookings: Iterable[Booking], priority: int) -> list[Booking]:
    """The pods that may be evicted for one of this priority: those that go anyway last, else the highest priority first."""
    lower = (one for one in bookings if one.evictable.priority < priority)
    return sorted(lower, key=lambda one: (one.evictable.is_ending, -one.evictable.priority, one.uid))


def _without(node: NodeInfo, uids: Collection[str]) -> NodeInfo:
    return laid_out_with(node, [booking for booking in node.bookings if booking.uid not in uids])


def _are_enough(
    node: NodeInfo, needed: Collection[str], proposed: Victims, preemptor: Preemptor, known: Mapping[str, Booking]
) -> bool:
    """Does the end of these, with the proposed victims that we know nothing of, make room for all that the pod asks for?"""
    if not needed:
        return False
    spared = [known[uid] for uid in proposed.uids if uid in known and uid not in needed]
    if not spared:
        return True
    if preemptor.is_entangled or any(one.evictable.is_entangled for one in spared):
        return False
    total = sum(device.total for device in node.devices if device.healthy)
    booked = sum(booking.units for booking in node.bookings if booking.uid not in needed)
    if total - booked < preemptor.asked.request.units:
        return False
    given = _others(known[uid] for uid in needed if uid not in proposed.uids)
    lost = _others(spared)
    return all(given[name] >= lost[name] for name, amount in preemptor.others if amount)


def _others(bookings: Iterable[Booking]) -> Counter[str]:
    found: Counter[str] = Counter()
    for booking in bookings:
        found.update(dict(booking.evictable.others))
    return found
