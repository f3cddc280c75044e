"""The right card in the right container, although the kubelet's calls name no container.

How a pod gets its card. The extender writes a card on the pod with the Binding. The kubelet then *admits* the pods that
were bound to its node, one after the other, and for each GPU container of a pod it calls:

1. GetPreferredAllocation: which ids should it take? Ids stand for units (in slots mode, for containers) of one card, so the
   choice of ids is the choice of the card. The call does not name the pod. But pods are admitted in a known order
   (``node_pods``), container by container, so one pod is the most likely (``candidates``). We choose ids of that
   pod's card, and the kubelet obeys. If that card has no ids left (an earlier guess was wrong, or the card is full of other pods'
   ids), we choose those of another card, and the pod is first marked with it: it is booked there before it has them.
2. Allocate: which variables does the container with these ids get? Those of the card and of that pod, once the last guard
   has agreed (``candidates.last_guard``). An error here ends the pod for good, with our text in its status.
3. PreStartContainer, later, when the kubelet has written down which container has these ids (``kubelet_records``): may it start? If
   the annotation of its pod names the card of the ids: yes. If not, the guess was wrong and took one pod for another.
   The ids of a container cannot be changed any more, but annotations can: they are exchanged between the pods
   (``repair`` finds the writes, ``exchange`` makes them), and then the container starts. While that is not possible an
   error keeps the container from starting; the kubelet tries again.

So a wrong guess usually costs a few writes, and never puts a container on another card than its annotation names. If the
annotation must not follow, the container is held until its pod is deleted. The plugin has to remember nothing over a restart:
the ids show their card, the kubelet's records show their container, and marks on the pods show a repair under way. Every process
can continue the work of one that was killed.

Pods that came without the extender get a card as soon as they are seen (``hand_bound``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final

from gpushare import wire
from gpushare.bounds import REPAIRS_A_MINUTE
from gpushare.cli.plugin_flags import ContainerFlags
from gpushare.deviceplugin.allocation.admission import Admission, Limit, no_limit
from gpushare.deviceplugin.allocation.exchange import SETTLED_SECONDS, Exchange, Restoration
from gpushare.deviceplugin.allocation.hand_bound import HandBound
from gpushare.deviceplugin.allocation.node_view import NodeView
from gpushare.deviceplugin.allocation.verification import HeldError, HoldReason, Verification
from gpushare.deviceplugin.core.bookings import kept_ids
from gpushare.deviceplugin.core.container_answer import ContainerAnswer
from gpushare.deviceplugin.core.node_pods import NodePods
from gpushare.deviceplugin.core.plugin_metrics import PluginMetrics
from gpushare.deviceplugin.core.write_budget import WriteBudget
from gpushare.deviceplugin.kubelet_records import KubeletRecords
from gpushare.deviceplugin.node_status import NodeWriter
from gpushare.errors import GpushareError
from gpushare.kube.client import ApiClient
from gpushare.kube.event_recorder import EventRecorder
from gpushare.manifests import ObjectMeta

_LOG = logging.getLogger(__name__)

# How often marks are looked at that must stand for a while, and everything else if no event comes, in seconds.
_MARKED_SECONDS: Final = 1.0
_REST_SECONDS: Final = 10.0
# After the API server refused, in seconds.
_RETRY_SECONDS: Final = 2.0
# How long after a question which ids its Allocate may come, in seconds. A kubelet sends it immediately, or not at all.
_ADMISSION_SECONDS: Final = 2.0


class Allocator:
    """Answers the kubelet for one node. One call at a time: each sees what the one before it did.

    ``repairs`` is False if annotations that name the wrong card are only reported. ``limit`` is as in
    ``admission``. ``view`` is all that it knows of the node.
    """

    def __init__(
        self,
        client: ApiClient,
        pods: NodePods,
        node: NodeWriter,
        records: KubeletRecords,
        events: EventRecorder,
        *,
        rules: ContainerFlags | None = None,
        metrics: PluginMetrics | None = None,
        repairs: bool = True,
        limit: Limit = no_limit,
        clock_ns: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], float] = time.monotonic,
        settled_seconds: float = SETTLED_SECONDS,
    ) -> None:
        self._events = events
        self._metrics = metrics = metrics or PluginMetrics()
        metrics.held = lambda: {uid: reason.value for uid, (reason, _) in self.held().items()}
        self.view = NodeView(client, pods, node, records, repairs=repairs)
        budget = WriteBudget(REPAIRS_A_MINUTE.most)
        self._exchange = Exchange(self.view, monotonic, metrics, budget, settled_seconds=settled_seconds)
        self._restoration = Restoration(self.view, events, budget, monotonic)
        self._hand_bound = HandBound(self.view, events, clock_ns)
        self.admission = Admission(self.view, self._exchange, self._hand_bound, rules or ContainerFlags(), limit)
        self._verification = Verification(self.view, self._exchange, self._hand_bound)
        # By uid, why a container of the pod may not start now.
        self._held: dict[str, tuple[HoldReason, str]] = {}
        self._monotonic = monotonic
        self._asked_at = -_ADMISSION_SECONDS
        self._lock = asyncio.Lock()
        self._changed = asyncio.Event()
        # Calls of the kubelet that wait for the lock, or have it.
        self._calls = 0
        self._shown = asyncio.Event()
        pods.on_change = self._on_change
        node.kept_ids = self.kept_ids

    async def recover(self) -> None:
        """After our own start: what the kubelet gave out before, and pods that wait. Raises ApiError."""
        await self.view.refresh()
        await self.view.read_records()
        self._changed.set()

    def begin_registration(self, *, kubelet_is_another: bool = False) -> None:
        """We register again, or with another kubelet than before, which finds the pods that are there now."""
        if kubelet_is_another:
            self.view.pods.were_found()
        self.admission.drop_unfinished(kubelet_is_another=kubelet_is_another)

    async def prefer(self, available: Sequence[str], must_include: Sequence[str], size: int) -> list[str]:
        """Ids for a container that asks for ``size``, all on its pod's card. Raises NoCandidateError, ApiError."""
        async with self._admitting():
            chosen = await self.admission.prefer(available, must_include, size)
            self._asked_at = self._monotonic()
            return chosen

    async def allocate(self, device_ids: Sequence[str]) -> ContainerAnswer:
        """The answer for the container with these ids. Raises NoCandidateError, ApiError."""
        async with self._admitting():
            answer = await self.admission.allocate(device_ids)
        self._metrics.allocations["granted"] += 1
        return answer

    async def verify(self, device_ids: Sequence[str]) -> None:
        """May the container with these ids start? Says on the pod why it is held. Raises HeldError, ApiError."""
        pod = self._verification.known_correct(device_ids)
        if pod is None:
            pod = await self._verify(device_ids)
        if pod is not None:
            self._held.pop(pod.uid, None)

    async def _verify(self, device_ids: Sequence[str]) -> ObjectMeta | None:
        """Find the owner of the ids: one after the other, and not during an admission if the kubelet must be asked."""
        try:
            async with self._called():
                is_asked = self.admission.is_asked and self._monotonic() - self._asked_at < _ADMISSION_SECONDS
                if is_asked and self.view.records.checkpoint() is None:
                    text = "the kubelet admits a pod, and must not be asked meanwhile which pod has these ids"
                    raise HeldError(HoldReason.OWNER_UNKNOWN, text)
                return await self._verification.verify(device_ids)
        except HeldError as error:
            if error.pod is not None:
                self._held[error.pod.uid] = error.reason, str(error)
                self._metrics.repairs["held"] += 1
                await self._events.record("Pod", error.pod, wire.EVENT_HELD, f"{error} ({error.reason.value})")
            raise

    def held(self) -> Mapping[str, tuple[HoldReason, str]]:
        """Pods with a container that may not start now, by uid, and why."""
        alive = {pod.metadata.uid for pod in self.view.pods.in_admission_order()}
        self._held = {uid: why for uid, why in self._held.items() if uid in alive}
        return self._held

    def held_for_good(self) -> Mapping[str, str]:
        """Pods that will never start, by uid, and why: only a new pod helps."""
        return {uid: f"{reason.value}: {text}" for uid, (reason, text) in self.held().items() if reason.is_final}

    def kept_ids(self) -> frozenset[str]:
        """The ids of unhealthy cards that stay announced as healthy."""
        if all(card.healthy for card in self.view.node.cards.cards):
            return frozenset()
        snapshot = self.view.now()
        return kept_ids(snapshot.holdings, snapshot.pods, snapshot.cards, counts_slots=snapshot.counts_slots)

    async def keep_reconciling(self) -> None:
        """Until cancelled: give pods without a card one, and end repairs that were begun."""
        while True:
            pause, was_refused = _RETRY_SECONDS, True
            try:
                async with self._lock:
                    self._changed.clear()
                    pause = await self.reconcile()
                    was_refused = bool(self.view.refused)
                self.view.node.announce()
            except GpushareError as error:
                _LOG.warning("cannot reconcile annotations error=%s", error)
            if was_refused:
                # Our own look at the node wakes this loop, so it must not go on immediately.
                await asyncio.sleep(_RETRY_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._changed.wait()

    async def keep_restoring(self) -> None:
        """Until cancelled: put back what authors of pods change. Such a write may hang, and must not delay ``keep_reconciling``."""
        while True:
            self._shown.clear()
            await self._restoration.run()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_REST_SECONDS):
                    await self._shown.wait()

    def _on_change(self) -> None:
        self._changed.set()
        self._shown.set()
        self.view.node.announce()

    @contextlib.asynccontextmanager
    async def _called(self) -> AsyncIterator[None]:
        """The kubelet waits for an answer: repairs of other pods stop after the write that is under way."""
        self._calls += 1
        try:
            async with self._lock:
                yield
        finally:
            self._calls -= 1

    @contextlib.asynccontextmanager
    async def _admitting(self) -> AsyncIterator[None]:
        """The kubelet admits a pod: a refusal ends it."""
        async with self._called():
            try:
                yield
            except GpushareError:
                self.admission.drop_unfinished()
                self._metrics.allocations["refused"] += 1
                raise

    async def reconcile(self) -> float:
        """Do all that can be done; how long to rest after it if no event comes, in seconds."""
        self.view.refused.clear()
        snapshot = self.view.now()
        if self._hand_bound.has_work(snapshot) or self._exchange.has_work(snapshot):
            await self.view.refresh(1)
            await self._exchange.run(lambda: self._calls > 0)
            await self._hand_bound.run(stop=lambda: self._calls > 0)
            snapshot = await self._exchange.run(lambda: self._calls > 0)
            if self._calls:
                # The lock is given in turn, so the kubelet's call comes first, and this goes on after it.
                return 0.0
        return _MARKED_SECONDS if any(one.mark is not None for one in snapshot.pod_cards) else _REST_SECONDS
