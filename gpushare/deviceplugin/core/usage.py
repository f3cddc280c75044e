"""The use of the cards by pods, against their bookings. Pure.

Scheduling is not isolation: nothing stops a process from taking more of a card than its pod booked, and then another
pod's allocation fails. So the use is compared with the booking, a pod that stays above it for a while is
reported once, and one that goes on may be evicted.

An unknown figure is not zero: a process without a figure makes its pod's sum a lower bound, and a pod without any figure
has no use that could be shown or judged.

The pod of a process is read from the name of its control group. The kubelet names a pod's group by its uid, the runtime a
container's by its id; the form depends on the cgroup driver, the runtime and the version of cgroups. Only the part that all of
them share is read here::

    cgroupfs   /kubepods/burstable/pod<uid>/<id>                                                 (CRI-O: crio-<id>)
    systemd    /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid with _>.slice/cri-containerd-<id>.scope
               (Docker: docker-<id>.scope, CRI-O: crio-<id>.scope, and a group below it on some versions)
    containerd on cgroupfs under a systemd kubelet
               /system.slice/containerd.service/kubepods-burstable-pod<uid with _>.slice:cri-containerd:<id>

In front of it may be whatever the node itself runs in (kind: ``/docker/<id>/kubelet.slice/kubelet-kubepods…``), and a
reader in a cgroup namespace of its own sees the way from there (``/../../kubepods-…``), which may leave ``kubepods``
out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gpushare.cli.plugin_flags import Tolerance
from gpushare.deviceplugin.core.kept_pods import KeptPod
from gpushare.deviceplugin.core.stuck_pods import no_successor
from gpushare.manifests import ObjectMeta
from gpushare.model.cards import NodeCards
from gpushare.model.limits import CardOveruse
from gpushare.model.node import unit_mib
from gpushare.model.pod import controller_of, is_deleting

MIB: Final = 1024 * 1024
# How long an amount of overuse stands on the Node at least, in seconds.
AMOUNTS_SECONDS: Final = 60.0
# A pod's uid; that of a static pod is 32 digits, the hash of its manifest. systemd turns the dashes into underscores.
_UID: Final = r"(?:[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})"
_POD: Final = re.compile(rf"(?:^|[/:-])pod({_UID})(?=\.slice(?:[/:]|$)|/|$)")
# The least looks in which a pod is seen above its limit before it is evicted.
READINGS: Final = 3
# The least priority of Kubernetes' own classes, system-cluster-critical and system-node-critical.
_CRITICAL: Final = 2_000_000_000


@dataclass(frozen=True, slots=True, order=True)
class PodOnCard:
    """A pod on a card, by our index; ``uid`` differs between two pods of one name."""

    namespace: str
    pod: str
    uid: str
    index: int


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """A process on a card: of which pod (None: of none that we know), how many MiB (None: the driver does not say)."""

    index: int
    pod_uid: str | None
    mib: int | None


@dataclass(frozen=True, slots=True)
class CardUse:
    """A pod's booking and use of a card, in bytes. ``used`` is None if the driver has a figure for none of its processes."""

    on: PodOnCard
    booked: int
    used: int | None = None

    @property
    def over(self) -> int:
        """Bytes above the booking; 0 if the pod keeps to its share, or its use is unknown."""
        return max((self.used or 0) - self.booked, 0)


@dataclass(frozen=True, slots=True)
class NodeUse:
    """One look at all cards: what each pod uses; by card the bytes of processes of no pod, and how many have no figure.

    Bytes are None if the driver has a figure for none of them. Nothing is known of ``silent`` cards.
    """

    uses: tuple[CardUse, ...] = ()
    unaccounted: Mapping[int, int | None] = field(default_factory=dict)
    without_figure: Mapping[int, int] = field(default_factory=dict)
    silent: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Overuse:
    """The result of one look: since when pods are above their limit (the clock of the caller, seconds), and which are reported.

    ``begun`` and ``ended`` are what must be reported now.
    """

    since: Mapping[PodOnCard, float] = field(default_factory=dict)
    reported: frozenset[PodOnCard] = frozenset()
    begun: tuple[CardUse, ...] = ()
    ended: tuple[CardUse, ...] = ()


@dataclass(frozen=True, slots=True)
class ShownOveruse:
    """The overuse that stands on the Node since ``at`` (the clock of the caller, seconds)."""

    pods: tuple[CardOveruse, ...] = ()
    at: float = 0.0


def show(before: ShownOveruse, uses: Iterable[CardUse], reported: Container[PodOnCard], now: float) -> ShownOveruse:
    """The overuse on the Node after a look: that of the reported pods.

    A pod that comes or goes is shown immediately, another amount at most once in ``AMOUNTS_SECONDS``: each is a write to the
    Node. A use that is not known keeps its last amount.
    """
    known = {(one.uid, one.index): one for one in before.pods}
    found = []
    for use in uses:
        if use.on in reported:
            last = known.get((use.on.uid, use.on.index))
            used = use.used // MIB if use.used is not None else last.used if last is not None else 0
            found.append(CardOveruse(use.on.uid, use.on.index, use.booked // MIB, used))
    pods = tuple(found)
    is_same = {(one.uid, one.index) for one in pods} == known.keys()
    if is_same and (set(pods) == set(before.pods) or now - before.at < AMOUNTS_SECONDS):
        return before
    return ShownOveruse(pods, now)


def bookings(pods: Iterable[KeptPod], cards: NodeCards) -> tuple[CardUse, ...]:
    """The booking of each pod, by card; a pod without a valid annotation has no known booking."""
    unit = unit_mib(cards) * MIB
    return tuple(
        CardUse(PodOnCard(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid, index), units * unit)
        for pod in pods
        if unit and pod.allocation is not None
        for index, units in pod.allocation.shares
    )


def on_other_cards(uses: Iterable[CardUse], pods: Iterable[KeptPod]) -> frozenset[PodOnCard]:
    """Pods with a process on a card that they did not book, or without any booking.

    A pod that asks for cards without a valid annotation may have booked this one.
    """
    unknown = {pod.metadata.uid for pod in pods if pod.allocation is None}
    return frozenset(use.on for use in uses if not use.booked and use.on.uid not in unknown)


def sum_up(
    processes: Iterable[ProcessUse],
    booked: Iterable[CardUse],
    pods: Mapping[str, ObjectMeta],
    silent: frozenset[int] = frozenset(),
) -> NodeUse:
    """Sum the processes by pod and card. ``pods`` are by the uid that ``processes`` name them with.

    A pod that uses a card on which it booked nothing is in it too, with a booking of 0. ``silent`` cards did not
    answer: their use is unknown.
    """
    wanted = {use.on: use.booked for use in booked}
    used: dict[PodOnCard, int | None] = {}
    unaccounted: dict[int, int | None] = {}
    without: dict[int, int] = {}
    for process in processes:
        if process.mib is None:
            without[process.index] = without.get(process.index, 0) + 1
        pod = pods.get(process.pod_uid) if process.pod_uid is not None else None
        if pod is None:
            unaccounted[process.index] = _more(unaccounted.get(process.index), process)
            continue
        on = PodOnCard(pod.namespace, pod.name, pod.uid, process.index)
        used[on] = _more(used.get(on), process)
    uses = (
        CardUse(on, wanted.get(on, 0), None if on.index in silent else used.get(on, 0)) for on in {**wanted, **used}
    )
    return NodeUse(tuple(uses), unaccounted, without, silent)


def _more(known: int | None, process: ProcessUse) -> int | None:
    """The bytes with those of one more process; None while no process has a figure."""
    return known if process.mib is None else (known or 0) + process.mib * MIB


def judge(before: Overuse, uses: Iterable[CardUse], now: float, tolerance: Tolerance, after_seconds: float) -> Overuse:
    """Which pods are above their limit, since when, and which of that is news. A use without a booking is no overuse.

    ``begun``: for ``after_seconds`` without a break, reported once an episode. ``ended``: those reported before that keep
    to their share again. An unknown use changes nothing; a pod that is gone ends without a report.
    """
    since: dict[PodOnCard, float] = {}
    begun, ended = [], []
    for use in uses:
        was_reported = use.on in before.reported
        if not use.booked or (use.used is None and use.on not in before.since):
            continue
        if use.used is None or use.used > tolerance.limit(use.booked):
            since[use.on] = before.since.get(use.on, now)
            if use.used is not None and not was_reported and now - since[use.on] >= after_seconds:
                begun.append(use)
        elif was_reported:
            ended.append(use)
    reported = (before.reported & since.keys()) | {use.on for use in begun}
    return Overuse(since, reported, tuple(begun), tuple(ended))


class Streak(NamedTuple):
    """Looks without a break in which a pod was seen above its limit."""

    since: float
    readings: int = 0

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
    """The streaks after one more look. ``reported`` are above their limit, if their use is known in ``uses``.

    A pod is due once it was above its limit in each look for the whole grace period, which begins with the look that reports it. A
    look in which its use is not known, or its card is not healthy, begins the period again: nothing is evicted for what was not
    seen. There are at least ``READINGS`` such looks, however short the period is.
    """
    healthy = {card.index for card in cards.cards if card.healthy}
    seen = [use.on for use in uses if use.on in reported and use.used is not None and use.on.index in healthy]
    last = {on: before.get(on, Streak(now)) for on in seen}
    return {on: Streak(one.since, one.readings + 1) for on, one in last.items()}


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


def pods_in_cgroups(text: str) -> list[str]:
    """The uids of the pods in a ``/proc/<pid>/cgroup``, the outermost pod first; empty for a process of no pod.

    There is more than one pod if a node runs in a pod. The first line that names a pod counts: version 1 has a line
    for each controller, and all of them name the same.
    """
    for line in text.splitlines():
        path = line.split(":", 2)[-1]
        if ("kubepods" in path or path.startswith("/..")) and (found := _POD.findall(path)):
            return [uid.replace("_", "-") for uid in found]
    return []
