"""The last check: if a card is over-booked in the API, no container gets onto it without room. Pure.

Asked before each answer, over what containers hold by the kubelet's records, not over what is written on pods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from gpushare.deviceplugin.core.candidates import Candidate
from gpushare.deviceplugin.core.holdings import Holdings, used_units
from gpushare.errors import NoCandidateError
from gpushare.manifests import Pod
from gpushare.model.cards import CardFacts


def room(
    holdings: Holdings,
    pods: Iterable[Pod],
    cards: Sequence[CardFacts],
    *,
    counts_slots: bool,
    besides: Collection[str] = (),
) -> dict[int, int]:
    """Units left on each card, by index, when the ids ``besides`` do not count; a sick card has none, nor has one overfull."""
    used = used_units(holdings, pods, counts_slots=counts_slots, besides=besides)
    return {card.index: max(card.units - used[card.index], 0) if card.healthy else 0 for card in cards}


def given_twice(holdings: Holdings, ids: Collection[str], uid: str) -> str | None:
    """An id that a container of another pod has too, or None.

    A kubelet that is asked for its records while it waits for our answer forgets what that answer takes, and may offer
    the same ids again (kubernetes, device manager, ``UpdateAllocatedDevices``).
    """
    wanted = frozenset(ids)
    others = (grant.ids & wanted for grant in holdings.grants if grant.uid != uid and not grant.is_guess)
    return next((min(both) for both in others if both), None)


def check(
    candidate: Candidate,
    ids: Collection[str],
    holdings: Holdings,
    pods: Iterable[Pod],
    cards: Sequence[CardFacts],
    *,
    counts_slots: bool,
) -> None:
    """Let a container have these ids. Raises NoCandidateError with the reason against it.

    The reason names no pod: the candidate may be taken for another one, with which the kubelet then shows the text.
    """
    by_index = {card.index: card for card in cards}
    left = room(holdings, pods, cards, counts_slots=counts_slots, besides=ids)
    is_counted = candidate.is_counted or (counts_slots and candidate.is_begun)
    for index, amount in candidate.cards:
        card = by_index.get(index)
        if card is None:
            raise NoCandidateError(f"the pod has card {index}, which this node does not have (any more)")
        if not card.healthy:
            raise NoCandidateError(f"card {index} of the pod is sick: {card.reason or 'no reason given'}")
        units = 0 if is_counted else candidate.pod_units if counts_slots else amount
        if left[index] < units:
            raise NoCandidateError(f"card {index} has {left[index]} units left for the {units} of the pod")
    twice = given_twice(holdings, ids, candidate.uid)
    if twice is not None:
        raise NoCandidateError(f"the kubelet offered the id {twice}, which another container has")
