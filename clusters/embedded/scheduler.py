"""The embedded scheduler: calls scheduler extenders exactly as kube-scheduler does, against any API server.

Cycles (filter, prioritize) run strictly one after the other; binds run beside them, as many as there are. A pod is
put on its node in memory before the bind starts and taken off again if it fails. For a pod that no node takes victims
are looked for in the same cycle; evicting them goes on beside the next ones.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Collection, Coroutine, Sequence
from datetime import datetime
from typing import Any

from clusters.api.api_client import ApiClient, ApiError, Object, is_being_deleted, is_terminal, key_of, uid_of
from clusters.api.connection import TransportError
from clusters.api.resources import NODES, POD_DISRUPTION_BUDGETS, PODS
from clusters.embedded.scheduling.cluster_view import ClusterView, Nominations
from clusters.embedded.scheduling.configuration import Configuration
from clusters.embedded.scheduling.cycle import SchedulingCycle
from clusters.embedded.scheduling.extender_client import ExtenderClient, ExtenderError
from clusters.embedded.scheduling.fit import FitError, SchedulingError
from clusters.embedded.scheduling.informer import Informer
from clusters.embedded.scheduling.pod_fields import (
    full_name,
    node_of,
    nominated_node_of,
    not_imitated,
    priority_of,
    scheduler_of,
)
from clusters.embedded.scheduling.preemptor import Preemptor
from clusters.embedded.scheduling.queue import Change, QueuedPod, SchedulingQueue, node_changes
from clusters.embedded.scheduling.reports import SCHEDULER_ERROR, UNSCHEDULABLE, Reporter


class Intake:
    """The scheduler's copy of the pods, and what each change of a pod or node means."""

    def __init__(
        self,
        view: ClusterView,
        queue: SchedulingQueue,
        scheduler_names: Collection[str],
        nominations: Nominations | None = None,
    ) -> None:
        self._view = view
        self._queue = queue
        self._names = scheduler_names
        self._nominations = nominations or Nominations()
        self._pods: dict[str, Object] = {}

    def pod(self, uid: str) -> Object | None:
        """The last state seen of a pod that has not ended."""
        return self._pods.get(uid)

    def take_node(self, kind: str, node: Object, now: float) -> None:
        """A watch event of a node. Raises ValueError for a quantity that is none."""
        if kind == "DELETED":
            self._view.remove_node(node["metadata"]["name"])
            self._queue.wake([Change.NODE_DELETED], now)
        else:
            self._queue.wake(node_changes(self._view.set_node(node), node), now)

    def take_pod(self, kind: str, pod: Object, now: float) -> None:
        """A watch event of a pod. Raises ValueError for a quantity that is none."""
        uid = uid_of(pod)
        old = self._pods.get(uid)
        if kind == "DELETED" or is_terminal(pod):
            self._take_end(old or pod, now)
        elif node_of(pod):
            self._pods[uid] = pod
            self._queue.delete(uid)
            self._nominations.delete(uid)
            self._view.place(pod)
            is_known = old is not None and node_of(old)
            self._queue.wake([Change.POD_UPDATED if is_known else Change.POD_ADDED], now)
        else:
            self._pods[uid] = pod
            self._take_waiting(old, pod, now)

    def _take_end(self, pod: Object, now: float) -> None:
        """A pod that is gone or has ended left room, or the node that it was nominated to."""
        uid = uid_of(pod)
        self._pods.pop(uid, None)
        self._queue.delete(uid)
        self._nominations.delete(uid)
        if self._view.remove(uid):
            self._queue.wake([Change.POD_DELETED], now)
        elif nominated_node_of(pod):
            self._give_up(pod, now)

    def _take_waiting(self, old: Object | None, pod: Object, now: float) -> None:
        uid = uid_of(pod)
        if scheduler_of(pod) not in self._names:
            return
        if self._view.is_assumed(uid):
            self._take_assumed(pod, now)
            return
        if self._queue.is_in_flight(uid):
            self._queue.note(old or pod, pod)
        elif self._queue.pool_of(uid) is None:
            self._queue.add(pod, now)
            self._nominations.set(pod)
        else:
            self._queue.update(pod, now)
            self._nominations.update(old or pod, pod)
        if old is not None and nominated_node_of(old) and nominated_node_of(old) != nominated_node_of(pod):
            self._give_up(old, now)

    def _take_assumed(self, pod: Object, now: float) -> None:
        """A pod that is being bound: its deletion gives its room back."""
        if is_being_deleted(pod) and self._view.forget(uid_of(pod)):
            self._queue.wake([Change.POD_DELETED], now)

    def _give_up(self, pod: Object, now: float) -> None:
        """The node that the pod was nominated to is free again for those that had to yield to it."""
        priority = priority_of(pod)
        self._queue.wake([Change.POD_DELETED], now, concerns=lambda other: priority_of(other) <= priority)


logger = logging.getLogger(__name__)

# The longest sleep without a look at the queue, in seconds; a clock may run faster than the event loop's.
TICK_SECONDS = 1.0


class Scheduler:
    """Schedules the pods of the configuration's profiles between ``start`` and ``stop``.

    ``now`` answers the time of day in UTC (for events and conditions), ``clock`` monotonic seconds (for backoffs). The
    caller keeps the ApiClient and closes it after ``stop``.
    """

    def __init__(
        self,
        api: ApiClient,
        configuration: Configuration,
        *,
        seed: int,
        now: Callable[[], datetime],
        clock: Callable[[], float] = time.monotonic,
        real: Callable[[float], float] = lambda seconds: seconds,
    ) -> None:
        """``real``: converts seconds of ``clock`` into seconds that the event loop must wait."""
        self._api = api
        self._clock = clock
        self._real = real
        self._configuration = configuration
        self._profiles = {profile.scheduler_name: profile for profile in configuration.profiles}
        self._view = ClusterView()
        self._nominations = Nominations()
        self._extenders = [ExtenderClient(each) for each in configuration.extenders_in_order]
        self._reporter = Reporter(api, now)
        self._preemptor = Preemptor(api, self._extenders, self._view, self._nominations, self._reporter, self._pod)
        self._queue = SchedulingQueue(
            configuration.initial_backoff_seconds, configuration.max_backoff_seconds, self._preemptor.is_preempting
        )
        self._intake = Intake(self._view, self._queue, self._profiles, self._nominations)
        rng = random.Random(seed)  # noqa: S311 - breaks ties
        self._cycle = SchedulingCycle(configuration, self._extenders, self._view, rng, self._nominations)
        self._changed = asyncio.Event()
        self._nodes = Informer(api, NODES, self._taking(self._intake.take_node))
        self._pods = Informer(api, PODS, self._taking(self._intake.take_pod))
        self._budgets = Informer(api, POD_DISRUPTION_BUDGETS, self._take_budget)
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start; returns immediately. The scheduler waits for an API server or extender that does not answer yet."""
        for work in (self._nodes.run(), self._pods.run(), self._budgets.run(), self._reporter.run(), self._run()):
            self._spawn(work)

    async def wait_synced(self) -> None:
        """Return once everything that was there at the start is known."""
        await self._nodes.synced.wait()
        await self._pods.synced.wait()
        await self._budgets.synced.wait()

    async def stop(self) -> None:
        """End everything. A bind under way may still happen; the next scheduler sees its outcome."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for extender in self._extenders:
            await extender.close()

    async def _run(self) -> None:
        await self.wait_synced()
        while True:
            item = self._queue.pop(self._clock())
            if item is None:
                await self._wait()
            else:
                await self._schedule(item)
                # A cycle without an extender never waits; the watches need their turn.
                await asyncio.sleep(0)

    async def _wait(self) -> None:
        """Until something changes or the next backoff ends."""
        deadline = self._queue.next_deadline()
        seconds = TICK_SECONDS if deadline is None else min(self._real(max(deadline - self._clock(), 0)), TICK_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return
        self._changed.clear()

    async def _schedule(self, item: QueuedPod) -> None:
        """One cycle; a bind goes on beside the next one."""
        if is_being_deleted(item.pod):
            self._queue.done(item.uid)
            return
        try:
            profile = self._profiles[scheduler_of(item.pod)]
            node = await self._cycle.place(item.pod, profile)
            self._view.assume(item.pod, node)
        except FitError as error:
            await self._refuse(item, error)
        except SchedulingError as error:
            self._put_back(item, UNSCHEDULABLE, error, error.rejectors)
        except ExtenderError as error:
            self._put_back(item, SCHEDULER_ERROR, error)
        except Exception as error:
            logger.exception("scheduling cycle broke pod=%s", full_name(item.pod))
            self._put_back(item, SCHEDULER_ERROR, error)
        else:
            self._queue.done(item.uid)
            self._nominations.delete(item.uid)
            if passed_over := not_imitated(item.pod):
                logger.warning("placed without a look at pod=%s fields=%s", full_name(item.pod), passed_over)
            self._spawn(self._bind(item, node))

    async def _refuse(self, item: QueuedPod, error: FitError) -> None:
        """No node takes the pod: look for victims, and say what came of it."""
        pod = self._pod(item.uid) or item.pod
        outcome = await self._preemptor.choose(self._cycle.demand(pod), error.diagnosis)
        victims = self._preemptor.begin(pod, outcome.victims)
        if victims:
            self._spawn(self._evict(pod, outcome.node or "", victims))
        self._put_back(item, UNSCHEDULABLE, FitError(error.diagnosis, outcome.message), error.rejectors, outcome.node)

    async def _evict(self, pod: Object, node: str, victims: Sequence[Object]) -> None:
        if not await self._preemptor.evict(pod, node, victims):
            self._queue.activate(uid_of(pod))
        self._changed.set()

    async def _bind(self, item: QueuedPod, node: str) -> None:
        try:
            await bind(self._api, self._extenders, item.pod, node)
        except BindError as error:
            self._undo(item, error)
        except Exception as error:
            logger.exception("binding cycle broke pod=%s", full_name(item.pod))
            self._undo(item, error)
        else:
            logger.info("bound pod=%s node=%s", full_name(item.pod), node)
            self._reporter.scheduled(item.pod, node)

    def _undo(self, item: QueuedPod, error: Exception) -> None:
        """A failed bind is a pod that left its node: others may want the place."""
        if self._view.forget(item.uid):
            self._queue.wake([Change.POD_DELETED], self._clock())
        self._put_back(item, SCHEDULER_ERROR, error)

    def _put_back(
        self,
        item: QueuedPod,
        reason: str,
        error: Exception,
        rejectors: frozenset[str] = frozenset(),
        node: str | None = "",
    ) -> None:
        """Queue the pod again as it looks now, unless it is gone, or bound though the answer was late.

        ``node``: the nomination, as in ``Outcome``.
        """
        logger.info("not scheduled pod=%s reason=%s: %s", full_name(item.pod), reason, error)
        pod = self._pod(item.uid)
        if pod is None or node_of(pod):
            self._queue.done(item.uid)
        else:
            item.pod = pod
            if reason == UNSCHEDULABLE:
                self._queue.requeue_rejected(item, pod, rejectors, self._clock())
            else:
                self._queue.requeue_failed(item, pod, self._clock())
            self._nominations.set(pod, node)
        self._changed.set()
        self._reporter.failed(item.pod, reason, str(error) or type(error).__name__, node)

    def _pod(self, uid: str) -> Object | None:
        return self._intake.pod(uid)

    def _taking(self, take: Callable[[str, Object, float], None]) -> Callable[[str, Object], None]:
        def take_now(kind: str, item: Object) -> None:
            take(kind, item, self._clock())
            self._changed.set()

        return take_now

    def _take_budget(self, kind: str, budget: Object) -> None:
        if kind == "DELETED":
            self._preemptor.budgets.pop(key_of(budget), None)
        else:
            self._preemptor.budgets[key_of(budget)] = budget

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.critical("the scheduler has lost a task", exc_info=task.exception())


class BindError(Exception):
    """The pod was not bound, or the bind was not confirmed; the text is for the pod's event."""


async def bind(api: ApiClient, extenders: Sequence[ExtenderClient], pod: Object, node: str) -> None:
    """Bind through the extender that binds and is interested in the pod, else directly. Raises BindError.

    An ignorable extender that fails is passed over and the pod bound directly, which is why an extender that writes
    something with the binding must not be ignorable.
    """
    for extender in extenders:
        configuration = extender.configuration
        if not configuration.bind_verb or not configuration.is_interested(pod):
            continue
        try:
            await extender.bind(pod, node)
            return
        except ExtenderError as error:
            if not configuration.ignorable:
                raise BindError(str(error)) from error
            logger.warning("extender ignored url=%s: %s", configuration.url_prefix, error)
    # As the scheduler's own bind plugin does it.
    name, namespace = pod["metadata"]["name"], pod["metadata"].get("namespace", "default")
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace, "uid": uid_of(pod)},
        "target": {"kind": "Node", "name": node},
    }
    try:
        await api.request("POST", PODS.path(namespace, name, "binding"), body=body)
    except (ApiError, TransportError) as error:
        raise BindError(f'running Bind plugin "DefaultBinder": {str(error) or type(error).__name__}') from error
