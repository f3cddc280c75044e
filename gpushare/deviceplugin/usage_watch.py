"""Looks at the processes on the cards now and then, and reports on a pod that it uses more than it booked.

The decisions are in ``usage``; this asks NVML and the kernel, and publishes to Prometheus and on the pod.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gpushare import wire
from gpushare.cli.plugin_flags import UsageFlags
from gpushare.deviceplugin.core.kept_pods import KeptPod
from gpushare.deviceplugin.core.plugin_metrics import PluginMetrics
from gpushare.deviceplugin.core.stuck_pods import name_of
from gpushare.deviceplugin.core.usage import (
    MIB,
    CardUse,
    Overuse,
    PodOnCard,
    ProcessUse,
    ShownOveruse,
    Streak,
    bookings,
    judge,
    keep_because,
    on_other_cards,
    pods_in_cgroups,
    show,
    streaks,
    sum_up,
)
from gpushare.deviceplugin.core.write_budget import WriteBudget
from gpushare.kube.api_errors import ApiError, ConflictError, MissingRightError, NotFoundError, TooManyRequestsError
from gpushare.kube.client import ApiClient
from gpushare.kube.event_recorder import EventRecorder, Level
from gpushare.manifests import ObjectMeta
from gpushare.model.cards import NodeCards
from gpushare.model.limits import encode_overuse
from gpushare.model.pod import controller_of
from gpushare.nvml.api import NvmlError, Process

_LOG = logging.getLogger(__name__)

# A wrong tolerance must not empty a node within a minute.
EVICTIONS_A_MINUTE: Final = 1
_RIGHT: Final = "the plugin may not evict pods: apply components/evict-overusers"
_BUDGET: Final = "a PodDisruptionBudget allows no eviction now"


@dataclass(eq=False)
class UsageWatch:
    """``processes`` asks NVML for those of a card, by UUID; ``cards`` and ``pods`` are this node's as of now.

    ``pods`` are those that ask for cards, ``everything`` is every pod of the node, without cards too, by the uid in the names of
    its control groups. ``publish`` takes the overuse annotation of the Node. ``evictor`` is None if no pod may be evicted.
    """

    processes: Callable[[str], Awaitable[Iterable[Process]]]
    cards: Callable[[], NodeCards]
    pods: Callable[[], Iterable[KeptPod]]
    everything: Callable[[], Mapping[str, ObjectMeta]]
    owners: ProcessOwners
    metrics: PluginMetrics
    events: EventRecorder
    rules: UsageFlags
    clock: Callable[[], float]
    publish: Callable[[str], None]
    evictor: OveruserEvictor | None = None
    overuse: Overuse = field(default_factory=Overuse, init=False)
    shown: ShownOveruse = field(default_factory=ShownOveruse, init=False)

    async def look(self) -> None:
        """One look at all cards. A card that does not answer is unknown, not idle."""
        by_card, silent = await self._processes()
        # Nothing is awaited from here to the verdict: one moment's pods and bookings.
        now, pods, cards = self.clock(), tuple(self.pods()), self.cards()
        known = self.everything()
        uses: list[ProcessUse] = []
        for index, found in by_card.items():
            uses += self.owners.uses(index, found, known)
        seen = sum_up(uses, bookings(pods, cards), known, frozenset(silent))
        self.overuse = verdict = judge(self.overuse, seen.uses, now, self.rules.tolerance, self.rules.after)
        self.metrics.seen, self.metrics.over = seen, verdict.reported
        self.metrics.overuse_episodes += len(verdict.begun)
        self.shown = show(self.shown, seen.uses, verdict.reported, now)
        self.publish(encode_overuse(self.shown.pods))
        # If a card does not answer, it is not known whether a process has ended.
        unbooked = on_other_cards(seen.uses, pods) | {on for on in self.metrics.unbooked if on.index in silent}
        begun = sorted(unbooked - self.metrics.unbooked)
        self.metrics.unbooked = unbooked
        self.metrics.unbooked_episodes += len(begun)
        if self.evictor is not None:
            self.evictor.note(verdict.reported, seen.uses, pods, cards, now)
        await self._report_all(begun, verdict)
        if self.evictor is not None:
            await self.evictor.evict(now)

    async def _processes(self) -> tuple[dict[int, tuple[Process, ...]], set[int]]:
        """The processes of each card that answers, and the cards of which none are known."""
        by_card: dict[int, tuple[Process, ...]] = {}
        silent: set[int] = set()
        for card in self.cards().cards:
            try:
                by_card[card.index] = tuple(await self.processes(card.uuid))
            except NvmlError as error:
                silent.add(card.index)
                self.metrics.nvml_errors["processes"] += 1
                _LOG.debug("processes not known uuid=%s error=%s", card.uuid, error)
        if self.owners.is_blind([process.pid for found in by_card.values() for process in found]):
            silent |= by_card.keys()
        return by_card, silent

    async def _report_all(self, unbooked: Iterable[PodOnCard], verdict: Overuse) -> None:
        for on in unbooked:
            text = (
                f"a process of this pod runs on card {on.index}, which the pod did not book; it takes memory that other pods "
                "were promised: ask for aliyun.com/gpu-mem, and do not set NVIDIA_VISIBLE_DEVICES"
            )
            await self._report(on, wire.EVENT_CARD_NOT_BOOKED, text)
        for use in verdict.begun:
            text = (
                f"uses {(use.used or 0) // MIB} MiB of card {use.on.index} and booked {use.booked // MIB} MiB; it takes memory "
                "that other pods of the card were promised: ask for more, or have it use less"
            )
            text += f"; {self.evictor.forecast(use)}" if self.evictor is not None else ""
            await self._report(use.on, wire.EVENT_MEMORY_OVERUSE, text)
        for use in verdict.ended:
            text = f"keeps to its share of card {use.on.index} again ({use.booked // MIB} MiB)"
            await self._report(use.on, wire.EVENT_MEMORY_OVERUSE_ENDED, text, "Normal")

    async def _report(self, on: PodOnCard, event: str, text: str, level: Level = "Warning") -> None:
        pod = ObjectMeta(on.pod, on.namespace, on.uid)
        line = "reported pod=%s/%s uid=%s event=%s: %s"
        _LOG.log(
            logging.INFO if level == "Normal" else logging.WARNING, line, pod.namespace, pod.name, pod.uid, event, text
        )
        await self.events.record("Pod", pod, event, text, level)


@dataclass(eq=False)
class OveruserEvictor:
    """Evicts pods that use more than they booked for a whole grace period, if the operator allowed it.

    ``note`` takes each look, ``evict`` acts on the last one. The API server's eviction keeps to PodDisruptionBudgets.
    """

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


class ProcessOwners:
    """Looks pids up below ``proc``, the host's ``/proc``: NVML has pids, and the kernel the control group of each.

    Both are of the host. A container sees the host's processes only with ``hostPID: true``. Without it NVML shows no process
    at all, or pids that mean nothing here; then no use is known, which is not 0, and a line is logged once.
    """

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        self._reported = False

    def uses(self, index: int, processes: Iterable[Process], pods: Collection[str]) -> list[ProcessUse]:
        """The processes of a card with their pods' uids; ``pods`` are the uids of this node's."""
        found = []
        for process in processes:
            try:
                text = (self._proc / str(process.pid) / "cgroup").read_text(errors="replace")
            except OSError:
                text = ""
            # None: a process of no pod of ours, or one that is gone.
            pod = next((uid for uid in pods_in_cgroups(text) if uid in pods), None)
            found.append(ProcessUse(index, pod, process.mib))
        return found

    def is_blind(self, pids: Sequence[int]) -> bool:
        """Are the host's processes invisible, those with these pids among them? Said once."""
        visible = any((self._proc / str(pid)).exists() for pid in pids)
        blind = not visible and (bool(pids) or self._sees_itself_only())
        if blind and not self._reported:
            _LOG.warning(
                "the host's processes are not visible, so no pod's use of the cards is known proc=%s processes=%d: the "
                "plugin needs hostPID: true (or --proc-root, where the host's /proc is mounted elsewhere)",
                self._proc, len(pids),
            )  # fmt: skip
            self._reported = True
        return blind

    def _sees_itself_only(self) -> bool:
        """Is the first process of this /proc in our own container? The host's is never in a container."""
        try:
            first, own = ((self._proc / name / "cgroup").read_text(errors="replace") for name in ("1", "self"))
        except OSError:
            return False
        return first == own
