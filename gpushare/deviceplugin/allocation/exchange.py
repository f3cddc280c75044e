"""Put annotations right: the writes that ``repair`` finds, and those over the changes of authors (``Restoration``).

The writes of a repair come one after the other, each computed from the present state.

The marks on the pods are the only memory of a repair, so the next look can continue after a process was killed between any
two writes, or while another process works. Each write is refused if its pod has changed since it was looked at. A pod
that the API server refuses to change (an admission webhook) is left as it is for a while: the other repairs go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from gpushare import wire
from gpushare.deviceplugin.allocation.node_view import NOT_WRITTEN, NodeSnapshot, NodeView, named
from gpushare.deviceplugin.core.kept_pods import differences
from gpushare.deviceplugin.core.plugin_metrics import PluginMetrics
from gpushare.deviceplugin.core.repair import Step, next_step
from gpushare.deviceplugin.core.write_budget import WriteBudget
from gpushare.kube.api_errors import ApiError
from gpushare.kube.event_recorder import EventRecorder
from gpushare.manifests import Pod

_LOG = logging.getLogger(__name__)

# How long a mark must have stood before room that was free is taken for it, in seconds: an extender that had not seen it has by
# then bound by its decision, which a new list shows, or its request has ended. If one comes later nevertheless, the
# last guard lets its pod onto no card without room.
SETTLED_SECONDS: Final = 15.0
# Writes in one go; against a loop that was not foreseen.
_MOST_WRITES: Final = 500
_LEFT_ALONE: Final = (
    "its annotations are changed again and again, and are left as they are for a minute. The pod keeps what was bound"
)


@dataclass(eq=False)
class Exchange:
    """Repairs the node's annotations. ``monotonic`` is a clock in seconds."""

    view: NodeView
    monotonic: Callable[[], float]
    metrics: PluginMetrics
    budget: WriteBudget
    settled_seconds: float = SETTLED_SECONDS
    # By uid and mark, since when we know it.
    marks: dict[tuple[str, int], float] = field(default_factory=dict, init=False)

    def has_work(self, snapshot: NodeSnapshot) -> bool:
        """Is there anything to write now?"""
        return self._next_step(snapshot) is not None

    async def mark(self) -> None:
        """Write the marks that are missing, and nothing else. Marks that cannot be written are left for later.

        This comes before ids are given away: the pod that is written on a card may end, and the pod that has its ids, or comes
        next, must be booked there before an extender sees that end.
        """
        failed: set[str] = set()
        for _ in range(_MOST_WRITES):
            snapshot = self.view.now()
            step = self._next_step(snapshot, failed)
            if step is None or step.mark is None or step.moves:
                return
            try:
                await self._write(step, snapshot)
            except ApiError as error:
                _LOG.warning("not marked now uid=%s mark=%s reason=%s", step.uid, step.mark, error)
                if not isinstance(error, NOT_WRITTEN):
                    return
                failed.add(step.uid)

    async def run(self, stop: Callable[[], bool] = lambda: False) -> NodeSnapshot:
        """Write until nothing can be done now, or until ``stop`` is true; the snapshot of that moment. Raises ApiError."""
        for _ in range(_MOST_WRITES):
            snapshot = self.view.now()
            step = self._next_step(snapshot)
            if step is None or stop():
                return snapshot
            try:
                await self._write(step, snapshot)
            except NOT_WRITTEN as error:
                await self.view.look_again(step.uid, error)
        return self.view.now()

    def _next_step(self, snapshot: NodeSnapshot, besides: Collection[str] = ()) -> Step | None:
        untouchable = {*self.view.refused, *self.budget.spent(self.monotonic()), *besides}
        return next_step(snapshot.pod_cards, snapshot.units, self._settled(snapshot), untouchable)

    async def _write(self, step: Step, snapshot: NodeSnapshot) -> None:
        pod = snapshot.pod(step.uid)
        changes: dict[str, str | None] = {wire.ANNOTATION_REPAIR: None if step.mark is None else str(step.mark)}
        if step.moves:
            changes[wire.ANNOTATION_INDEX] = str(step.index)
            size = next((card.units for card in snapshot.cards if card.index == step.index), 0)
            changes[wire.ANNOTATION_DEVICE_UNITS] = str(size)
        try:
            await self.view.write(pod, changes, unchanged=True)
        except ApiError:
            # A pod's author that changes it again and again makes only these come back; a write that succeeds is a step forward.
            self.budget.take(step.uid, self.monotonic())
            raise
        # A pod that moves without a mark has no ids.
        what = ("gave way", "unmarked") if step.mark is None else ("exchanged", "marked")
        _LOG.info("%s pod=%s/%s uid=%s device=%d mark=%s", what[not step.moves], *named(pod), step.index, step.mark)
        if step.moves and step.mark is not None:
            self.metrics.repairs["exchanged"] += 1

    def _settled(self, snapshot: NodeSnapshot) -> frozenset[str]:
        now = self.monotonic()
        marks = [(one.uid, one.mark) for one in snapshot.pod_cards if one.mark is not None]
        self.marks = {mark: self.marks.get(mark, now) for mark in marks}
        return frozenset(uid for (uid, _), since in self.marks.items() if now - since >= self.settled_seconds)


@dataclass(eq=False)
class Restoration:
    """Puts back annotations that were changed after their pod was bound, and reports the change on the pod.

    Nothing in the plugin depends on these writes: it remembers what was bound (``kept_pods``), and the kubelet's records have the
    ids. The writes are for other readers of the API. So no call of the kubelet waits for them, and a pod is written a few times a
    minute only. ``monotonic`` is a clock in seconds.
    """

    view: NodeView
    events: EventRecorder
    budget: WriteBudget
    monotonic: Callable[[], float]
    # By uid, the change that was reported last: one that stays is reported once.
    reported: dict[str, Mapping[str, str | None]] = field(default_factory=dict, init=False)
    # Pods that are left alone until their window has passed.
    left_alone: set[str] = field(default_factory=set, init=False)

    async def run(self) -> None:
        """Put back once whatever differs now."""
        pods = self.view.pods.in_admission_order()
        different = {pod.metadata.uid for pod in pods if differences(pod)}
        self.reported = {uid: changes for uid, changes in self.reported.items() if uid in different}
        # By the window and not by the present difference: an author can make that go and come back at will.
        self.left_alone &= self.budget.spent(self.monotonic())
        for uid in different:
            pod = self.view.pods.by_uid(uid)
            if pod is None or not (changes := differences(pod)):
                continue
            is_news = self.reported.get(uid) != changes
            if (is_news or self.view.repairs) and self.budget.take(uid, self.monotonic()):
                if is_news:
                    await self._report(pod, changes)
                if self.view.repairs:
                    await self._put_back(uid)
            elif self.view.repairs and uid not in self.left_alone:
                self.left_alone.add(uid)
                _LOG.warning("changed again and again, left alone for a minute pod=%s/%s uid=%s", *named(pod))
                await self.events.record("Pod", pod.metadata, wire.EVENT_ANNOTATIONS_CHANGED, _LEFT_ALONE)

    async def _report(self, pod: Pod, changes: Mapping[str, str | None]) -> None:
        self.reported[pod.metadata.uid] = changes
        names = ", ".join(sorted(changes))
        _LOG.warning("changed after the bind pod=%s/%s uid=%s annotations=%s", *named(pod), names)
        then = "it is put back" if self.view.repairs else "repairs are switched off (--repair hold)"
        text = f"annotations were changed after the pod was bound: {names}. The pod keeps what was bound; {then}"
        await self.events.record("Pod", pod.metadata, wire.EVENT_ANNOTATIONS_CHANGED, text)

    async def _put_back(self, uid: str) -> None:
        """The values that count are written over those of the pod's author, unless it has changed since."""
        pod = self.view.pods.by_uid(uid)
        if pod is None or not (changes := differences(pod)):
            return
        try:
            self.view.pods.set(await self.view.client.annotate_pod(pod, changes, unchanged=True))
        except ApiError as error:
            _LOG.warning("annotations cannot be put back now pod=%s/%s uid=%s error=%s", *named(pod), error)
