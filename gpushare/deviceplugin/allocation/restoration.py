"""Puts back annotations that were changed after their pod was bound, and reports the change on the pod.

Nothing in the plugin depends on these writes: it remembers what was bound (``kept_pods``), and the kubelet's records have the
ids. The writes are for other readers of the API. So no call of the kubelet waits for them, and a pod is written a few times a
minute only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gpushare import wire
from gpushare.deviceplugin.allocation.node_view import NodeView, named
from gpushare.deviceplugin.core.kept_pods import KeptPod, differences
from gpushare.deviceplugin.core.write_budget import WriteBudget
from gpushare.kube.api_errors import ApiError
from gpushare.kube.event_recorder import EventRecorder

_LOG = logging.getLogger(__name__)

_LEFT_ALONE: Final = (
    "its annotations are changed again and again, and are left as they are for a minute. The pod keeps what was bound"
)


@dataclass(eq=False)
class Restoration:
    """``monotonic`` is a clock in seconds."""

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
            if not self.view.repairs:
                if self.reported.get(uid) != changes and self.budget.take(uid, self.monotonic()):
                    await self._report(pod, changes)
            elif self.budget.take(uid, self.monotonic()):
                await self._report(pod, changes)
                await self._put_back(uid)
            elif uid not in self.left_alone:
                self.left_alone.add(uid)
                _LOG.warning("changed again and again, left alone for a minute pod=%s/%s uid=%s", *named(pod))
                await self.events.record("Pod", pod.metadata, wire.EVENT_ANNOTATIONS_CHANGED, _LEFT_ALONE)

    async def _report(self, pod: KeptPod, changes: Mapping[str, str | None]) -> None:
        uid = pod.metadata.uid
        if self.reported.get(uid) == changes:
            return
        self.reported[uid] = changes
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
