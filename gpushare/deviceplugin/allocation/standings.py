"""Where each pod of the node stands: the card that is written, the card that it has, and whether one may be changed. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from gpushare import wire
from gpushare.deviceplugin.allocation.holdings import Holdings
from gpushare.deviceplugin.allocation.repair import PodCard
from gpushare.errors import GpushareError
from gpushare.manifests import Pod
from gpushare.model.allocation import Allocation
from gpushare.model.allocation import allocation_of as read_allocation
from gpushare.model.cards import CardFacts
from gpushare.model.pod import is_finished, pod_request, was_started

# A pod that says this of cards is left on the one that was chosen for it.
WISHES: Final = tuple(
    f"gpushare.aliyun.com/{name}"
    for name in ("card-model", "card-model-not", "card-uuid", "card-uuid-not", "same-card")
)


def allocation_of(pod: Pod) -> Allocation | None:
    """What is written on a pod that asks for card memory; None where that is no valid card."""
    try:
        return read_allocation(pod) if pod_request(pod) > 0 else None
    except GpushareError:
        return None


def pod_cards(
    pods: Iterable[Pod], holdings: Holdings, *, repairs: bool, refused: Collection[str] = ()
) -> tuple[PodCard, ...]:
    """The pods that are booked on one card and have not ended, in their order; ``repairs`` are switched on.

    ``refused`` are pods, by uid, that the API server lets nobody change now.
    """
    found = ((pod, None if is_finished(pod) else allocation_of(pod)) for pod in pods)
    return tuple(
        _pod_card(pod, allocation, holdings, repairs and pod.metadata.uid not in refused)
        for pod, allocation in found
        if allocation is not None and allocation.by_container is None
    )


def _pod_card(pod: Pod, allocation: Allocation, holdings: Holdings, repairs: bool) -> PodCard:
    uid, index = pod.metadata.uid, allocation.index
    grants = holdings.of_pod(uid)
    certain = [grant for grant in grants if not grant.is_guess]
    cards = {card for grant in certain for card in grant.card_of.values()}
    held: int | None = index
    answered = None
    movable = repairs and why_fixed(pod) is None
    if len(cards) == 1:
        held = cards.pop()
    elif cards:
        movable = False
    elif not certain and not was_started(pod):
        held = None
        answered = min(holdings.cards(uid), default=None)
    return PodCard(uid, allocation.units, index, held, allocation.repair, movable, answered)


def why_fixed(pod: Pod) -> str | None:
    """Why the card of a pod may not be changed, or None where it may."""
    annotations = pod.metadata.annotations or {}
    if annotations.get(wire.ANNOTATION_EXTENDER) != wire.EXTENDER_BOOK:
        return "the extender that bound it would not follow a change of its card"
    wish = next((name for name in WISHES if name in annotations), None)
    return f"it wishes for a card ({wish})" if wish is not None else None


def open_units(pods: Iterable[Pod], holdings: Holdings, cards: Iterable[CardFacts]) -> dict[int, int]:
    """Units of each healthy card that pods on one card may have: all but what pods on several cards, or without one, have."""
    fixed: Counter[int] = Counter()
    for pod in pods:
        allocation = allocation_of(pod)
        if is_finished(pod):
            continue
        if allocation is None:
            fixed.update(card for grant in holdings.of_pod(pod.metadata.uid) for card in grant.card_of.values())
        elif allocation.by_container is not None:
            fixed.update(dict(allocation.shares))
    return {card.index: max(card.units - fixed[card.index], 0) for card in cards if card.healthy}


def booked_units(pods: Iterable[PodCard], others: Mapping[int, int]) -> Counter[int]:
    """What is spoken for on each card: by what is written, by marks, by ids; each pod once a card. ``others`` come on top."""
    booked: Counter[int] = Counter(others)
    for pod in pods:
        booked.update(dict.fromkeys(pod.cards, pod.units))
    return booked
