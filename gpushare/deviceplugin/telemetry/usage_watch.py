"""Looks at the processes on the cards now and then, and reports on a pod that it uses more than it booked.

The decisions are in ``usage``; this asks NVML and the kernel, and publishes to Prometheus and on the pod.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping

from gpushare import wire
from gpushare.deviceplugin.core.plugin_metrics import PluginMetrics
from gpushare.deviceplugin.core.usage import (
    MIB,
    CardUse,
    Episode,
    PodOnCard,
    ProcessUse,
    bookings,
    judge,
    on_other_cards,
    sum_up,
    uids_in_cgroups,
)
from gpushare.deviceplugin.telemetry.processes import ProcessOwners
from gpushare.kube.event_recorder import EventRecorder
from gpushare.manifests import ObjectMeta, Pod
from gpushare.model.cards import NodeCards
from gpushare.nvml.api import Process
from gpushare.nvml.nvml_errors import NvmlError
from gpushare.plugin_flags import UsageFlags

_LOG = logging.getLogger(__name__)


class UsageWatch:
    """``processes`` asks NVML for those of a card, by UUID; ``cards`` and ``pods`` are this node's as of now.

    ``pods`` are those that ask for cards, ``everything`` is every pod of the node, without cards too.
    """

    def __init__(
        self,
        processes: Callable[[str], Awaitable[Iterable[Process]]],
        cards: Callable[[], NodeCards],
        pods: Callable[[], Iterable[Pod]],
        everything: Callable[[], Iterable[ObjectMeta]],
        owners: ProcessOwners,
        metrics: PluginMetrics,
        events: EventRecorder,
        rules: UsageFlags,
        clock: Callable[[], float],
    ) -> None:
        self._processes = processes
        self._cards = cards
        self._pods = pods
        self._everything = everything
        self._owners = owners
        self._metrics = metrics
        self._events = events
        self._rules = rules
        self._clock = clock
        self._episodes: Mapping[PodOnCard, Episode] = {}
        self._unbooked: frozenset[PodOnCard] = frozenset()

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await self.look()
            await asyncio.sleep(self._rules.interval)

    async def look(self) -> None:
        """One look at all cards. A card that does not answer is unknown, not idle."""
        by_card: dict[int, tuple[Process, ...]] = {}
        silent: set[int] = set()
        for card in self._cards().cards:
            try:
                by_card[card.index] = tuple(await self._processes(card.uuid))
            except NvmlError as error:
                silent.add(card.index)
                self._metrics.count_nvml_error("processes")
                _LOG.debug("processes not known uuid=%s error=%s", card.uuid, error)
        if self._owners.is_blind([process.pid for found in by_card.values() for process in found]):
            silent |= by_card.keys()
        # Nothing is awaited from here to the verdict: one moment's pods and bookings.
        pods = tuple(self._pods())
        known = uids_in_cgroups(self._everything())
        uses: list[ProcessUse] = []
        for index, found in by_card.items():
            uses += self._owners.uses(index, found, known)
        seen = sum_up(uses, bookings(pods, self._cards()), known, frozenset(silent))
        verdict = judge(self._episodes, seen.uses, self._clock(), self._rules.tolerance, self._rules.after)
        self._episodes = verdict.episodes
        reported = [on for on, episode in verdict.episodes.items() if episode.reported]
        before = self._unbooked
        # If a card does not answer, it is not known whether a process has ended.
        self._unbooked = on_other_cards(seen.uses, pods) | {on for on in before if on.index in silent}
        begun = sorted(self._unbooked - before)
        self._metrics.show_usage(seen, reported, len(verdict.begun))
        self._metrics.show_unbooked(self._unbooked, len(begun))
        by_uid = {pod.uid: pod for pod in known.values()}
        for on in begun:
            await self._report_unbooked(by_uid[on.uid], on)
        for use in verdict.begun:
            await self._report_overuse(by_uid[use.on.uid], use)
        for use in verdict.ended:
            await self._report_end(by_uid[use.on.uid], use)

    async def _report_unbooked(self, pod: ObjectMeta, on: PodOnCard) -> None:
        _LOG.warning("unbooked pod=%s/%s uid=%s device=%d", pod.namespace, pod.name, pod.uid, on.index)
        text = (
            f"a process of this pod runs on card {on.index}, which the pod did not book; it takes memory that other pods were "
            "promised: ask for aliyun.com/gpu-mem, and do not set NVIDIA_VISIBLE_DEVICES"
        )
        await self._events.record("Pod", pod, wire.EVENT_CARD_NOT_BOOKED, text)

    async def _report_overuse(self, pod: ObjectMeta, use: CardUse) -> None:
        used = (use.used or 0) // MIB
        _LOG.warning(
            "overuse pod=%s/%s uid=%s device=%d used_mib=%d booked_mib=%d",
            pod.namespace, pod.name, pod.uid, use.on.index, used, use.booked // MIB,
        )  # fmt: skip
        text = (
            f"uses {used} MiB of card {use.on.index} and booked {use.booked // MIB} MiB; it takes memory that other pods of "
            "the card were promised: ask for more, or have it use less"
        )
        await self._events.record("Pod", pod, wire.EVENT_MEMORY_OVERUSE, text)

    async def _report_end(self, pod: ObjectMeta, use: CardUse) -> None:
        _LOG.info("overuse ended pod=%s/%s uid=%s device=%d", pod.namespace, pod.name, pod.uid, use.on.index)
        text = f"keeps to its share of card {use.on.index} again ({use.booked // MIB} MiB)"
        await self._events.record("Pod", pod, wire.EVENT_MEMORY_OVERUSE_ENDED, text, "Normal")
