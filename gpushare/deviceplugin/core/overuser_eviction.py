"""Which overusing pods may be evicted, and which are due. Pure.

A pod is due once it was above its limit in each look for the whole grace period, which begins with the look that reports it. A look
in which its use is not known, or its card is not healthy, begins the period again: nothing is evicted for what was not seen. There
are at least ``READINGS`` such looks, however short the period is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from gpushare.deviceplugin.core.kept_pods import KeptPod
from gpushare.deviceplugin.core.stuck_pods import no_successor
from gpushare.deviceplugin.core.usage import CardUse, PodOnCard
from gpushare.model.cards import NodeCards
from gpushare.model.pod import controller_of, is_deleting

READINGS: Final = 3
# The least priority of Kubernetes' own classes, system-cluster-critical and system-node-critical.
_CRITICAL: Final = 2_000_000_000


class Streak(NamedTuple):
    """Looks without a break in which a pod was seen above its limit."""

    since: float
    readings: int

    def longer(self) -> Streak:
        """The same with one more look."""
        return Streak(self.since, self.readings + 1)

    def is_due(self, now: float, grace_seconds: float) -> bool:
        """Has the pod had its time?"""
        return self.readings >= READINGS and now - self.since >= grace_seconds


def streaks(
    before: Mapping[PodOnCard, Streak],
    reported: Collection[PodOnCard],
    uses: Iterable[CardUse],
    cards: NodeCards,
    now: float,
) -> dict[PodOnCard, Streak]:
    """The streaks after one more look. ``reported`` are above their limit, if their use is known in ``uses``."""
    healthy = {card.index for card in cards.cards if card.healthy}
    seen = [use.on for use in uses if use.on in reported and use.used is not None and use.on.index in healthy]
    return {on: before[on].longer() if on in before else Streak(now, 1) for on in seen}


def keep_because(pod: KeptPod, index: int, cards: NodeCards) -> str:
    """Why a pod with too much of this card is never evicted; "" if it may be."""
    if is_deleting(pod):
        return "it ends already"
    if (pod.spec.priority or 0) >= _CRITICAL:
        return "it is critical to the cluster by its priority"
    sizes = [card.units for card in cards.cards if card.index == index]
    if pod.allocation is None or pod.allocation.card_size not in sizes:
        return "its card has another size than when the pod was bound, so its booking may be of another unit"
    return no_successor(controller_of(pod.metadata))
