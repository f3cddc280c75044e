"""Evicts pods that use more than they booked for a whole grace period, if the operator allowed it.

The decisions are in ``overuser_eviction``. The API server's eviction keeps to PodDisruptionBudgets.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gpushare import wire
from gpushare.deviceplugin.core.kept_pods import KeptPod
from gpushare.deviceplugin.core.overuser_eviction import Streak, keep_because, streaks
from gpushare.deviceplugin.core.plugin_metrics import PluginMetrics
from gpushare.deviceplugin.core.stuck_pods import name_of
from gpushare.deviceplugin.core.usage import MIB, CardUse, PodOnCard
from gpushare.deviceplugin.core.write_budget import WriteBudget
from gpushare.kube.api_errors import ApiError, ConflictError, MissingRightError, NotFoundError, TooManyRequestsError
from gpushare.kube.client import ApiClient
from gpushare.kube.event_recorder import EventRecorder
from gpushare.model.cards import NodeCards
from gpushare.model.pod import controller_of

_LOG = logging.getLogger(__name__)

# A wrong tolerance must not empty a node within a minute.
EVICTIONS_A_MINUTE: Final = 1
_RIGHT: Final = "the plugin may not evict pods: apply components/evict-overusers"
_BUDGET: Final = "a PodDisruptionBudget allows no eviction now"


@dataclass(eq=False)
class OveruserEvictor:
    """``note`` takes each look, ``evict`` acts on the last one."""

    client: ApiClient
    metrics: PluginMetrics
    events: EventRecorder
    grace: float
    # One for the node, and a try for each pod.
    budget: WriteBudget = field(default_factory=lambda: WriteBudget(EVICTIONS_A_MINUTE), init=False)
    tries: WriteBudget = field(default_factory=lambda: WriteBudget(1), init=False)
    streaks: Mapping[PodOnCard, Streak] = field(default_factory=dict, init=False)
    overusers: Mapping[PodOnCard, tuple[CardUse, KeptPod, str]] = field(default_factory=dict, init=False)
    # By uid: pods that are evicted, and why the last try was refused, each reported once.
    evicted: set[str] = field(default_factory=set, init=False)
    refused: dict[str, str] = field(default_factory=dict, init=False)

    def note(
        self,
        reported: Collection[PodOnCard],
        uses: Iterable[CardUse],
        pods: Iterable[KeptPod],
        cards: NodeCards,
        now: float,
    ) -> None:
        """One look: the pods that are above their limit and ``reported``, as far as their use is known."""
        by_uid = {pod.metadata.uid: pod for pod in pods}
        self.streaks = streaks(self.streaks, reported, uses, cards, now)
        self.overusers = {
            use.on: (use, pod, keep_because(pod, use.on.index, cards))
            for use in uses
            if use.on in self.streaks and (pod := by_uid.get(use.on.uid)) is not None
        }
        self.evicted &= by_uid.keys()
        self.refused = {uid: why for uid, why in self.refused.items() if uid in by_uid}

    def forecast(self, use: CardUse) -> str:
        """The end of the event of a pod: is it evicted if it goes on?"""
        _, _, why = self.overusers.get(use.on, (use, None, "the state of its card is not known"))
        return f"it is not evicted: {why}" if why else f"it is evicted if it goes on for {self.grace:.0f} s"

    async def evict(self, now: float) -> None:
        """Evict the pods whose grace period is over, the worst first."""
        for on, (use, pod, why) in sorted(self.overusers.items(), key=lambda one: (-one[1][0].over, one[0])):
            is_due = self.streaks[on].is_due(now, self.grace) and not why and on.uid not in self.evicted
            if is_due and not self.budget.spent(now) and self.tries.take(on.uid, now):
                await self._evict(use, pod, now)

    async def _evict(self, use: CardUse, pod: KeptPod, now: float) -> None:
        metadata = pod.metadata
        try:
            await self.client.evict_pod(metadata)
        except (NotFoundError, ConflictError):
            # Gone already, or another pod has its name.
            self.evicted.add(metadata.uid)
        except ApiError as error:
            await self._refused(pod, error)
        else:
            self.evicted.add(metadata.uid)
            self.budget.take("", now)
            self.metrics.overuse_evictions["evicted"] += 1
            text = (
                f"evicted: it used {(use.used or 0) // MIB} MiB of card {use.on.index} and booked {use.booked // MIB} MiB, for "
                f"{now - self.streaks[use.on].since:.0f} s after it was reported; {name_of(controller_of(metadata))} replaces it"
            )
            _LOG.warning("evicted pod=%s/%s uid=%s: %s", metadata.namespace, metadata.name, metadata.uid, text)
            await self.events.record("Pod", metadata, wire.EVENT_OVERUSER_EVICTED, text)

    async def _refused(self, pod: KeptPod, error: ApiError) -> None:
        """Report a refusal once; a later look tries again."""
        metadata = pod.metadata
        self.metrics.overuse_evictions["refused"] += 1
        why = _RIGHT if isinstance(error, MissingRightError) else str(error)
        # An API server that has too much to do answers 429, too.
        why = _BUDGET if isinstance(error, TooManyRequestsError) and "budget" in why else why
        if self.refused.get(metadata.uid) == why:
            return
        self.refused[metadata.uid] = why
        _LOG.warning("not evicted pod=%s/%s uid=%s error=%s", metadata.namespace, metadata.name, metadata.uid, error)
        text = f"it still uses more than it booked, and is not evicted: {why}"
        await self.events.record("Pod", metadata, wire.EVENT_OVERUSER_STAYS, text)
