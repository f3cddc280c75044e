"""The pods of one node: watched, admitted one after the other, each with a worker.

Pods are admitted in the order in which they became bound (unless the timings change it); after a start, in which
that order is unknown, by creation time. A pod is forgotten when its worker has ended *and* the API server has reported that
it is gone: its last changes may still be on their way when we delete it.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Mapping
from functools import partial

from clusters.api.api_client import ApiClient
from clusters.api.resources import PODS
from clusters.kubelet.kubelet_devices import AllocationError
from clusters.kubelet.pod_worker import PodWorker, Surroundings
from clusters.kubelet.pod_writer import PodWriter
from clusters.kubelet.pods import Object, Rejection, containers_of, device_rejection, resource_rejection, uid_of
from clusters.kubelet.runtime import Run

_LOG = logging.getLogger(__name__)

# The time that containers get to stop if their pod is not, or not any more, one of this node's, in seconds.
_ORPHAN_GRACE_SECONDS = 1.0


class NodePods:
    """All pods bound to ``node``. ``allocatable`` is the node's status as the kubelet knows it."""

    def __init__(
        self,
        client: ApiClient,
        node: str,
        around: Surroundings,
        allocatable: Callable[[], Mapping[str, str]],
        shuffle: Callable[[list[str]], None],
    ) -> None:
        self._client = client
        self._node = node
        self._around = around
        self._allocatable = allocatable
        self._shuffle = shuffle
        self._workers: dict[str, PodWorker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        # The pods of the first list that are still to be admitted; None before it came.
        self._first: set[str] | None = None

    @property
    def is_settled(self) -> bool:
        """Whether all pods that were here at the start are admitted or rejected.

        Until then containers that run on keep their devices unasked, and no devices are taken back.
        """
        return self._first is not None and not self._first

    async def follow(self) -> None:
        """Watch the pods of the node; ends by cancellation."""
        listed: list[Object] | None = []
        async for kind, pod in self._client.watch(PODS, field_selector=f"spec.nodeName={self._node}"):
            if kind == "SYNCED":
                self._take_list(listed or [])
                listed = None
            elif listed is not None:
                listed.append(pod)
            elif kind == "DELETED":
                self._remove(uid_of(pod), pod)
            else:
                self._take(pod)

    async def admit(self) -> None:
        """Admit pods in their order; ends by cancellation."""
        while True:
            for uid in await self._next():
                worker = self._workers.get(uid)
                if worker is not None:
                    await self._begin(uid, worker)
                if self._first is not None:
                    self._first.discard(uid)

    async def _next(self) -> list[str]:
        """The next pod; several, if this kubelet does not keep the order of bindings."""
        uids = [await self._queue.get()]
        if self._around.timings.admission_shuffle > 0:
            await asyncio.sleep(self._around.timings.admission_shuffle)
            while not self._queue.empty():
                uids.append(self._queue.get_nowait())
            uids = self._with_equals_shuffled(uids)
        return uids

    def _with_equals_shuffled(self, uids: list[str]) -> list[str]:
        """Neighbours that ask for the same change places: their requests do not tell them apart.

        One that stands between two others stays there: across it, the order could not even be found out afterwards.
        """
        shuffled: list[str] = []
        for _, neighbours in itertools.groupby(uids, self._request):
            group = list(neighbours)
            self._shuffle(group)
            shuffled += group
        return shuffled

    def _request(self, uid: str) -> object:
        worker = self._workers.get(uid)
        containers = containers_of(worker.pod) if worker is not None else ()
        return tuple((one.kind, tuple(sorted(one.limits.items()))) for one in containers)

    async def _begin(self, uid: str, worker: PodWorker) -> None:
        # As a real one: a pod that is being deleted is admitted, and ended then.
        if not (worker.was_terminal or worker.is_removed):
            worker.rejection = await self._rejection(uid, worker)
        task = asyncio.create_task(worker.run(), name=f"pod {worker.pod['metadata']['name']}")
        self._tasks[uid] = task
        task.add_done_callback(partial(self._ended, uid))

    async def stop(self) -> None:
        """Leave all pods as they are; nothing is written any more."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for worker in self._workers.values():
            await worker.writer.stop()

    def active_uids(self) -> set[str]:
        """The pods that use their devices."""
        return {uid for uid, worker in self._workers.items() if worker.is_active}

    def active_pods(self) -> list[Object]:
        """Their objects, in the order in which they came."""
        return [worker.pod for worker in self._workers.values() if worker.is_active]

    def all_pods(self) -> list[Object]:
        """All pods that the API server has, the newest first."""
        return [worker.pod for worker in self._all() if not worker.is_removed]

    def release_ended(self) -> None:
        """Free what ended pods had, once all pods are known."""
        if self.is_settled:
            self._around.devices.release_all_but(self.active_uids())

    def show_devices(self) -> None:
        """Devices changed: what pods show of theirs may be old."""
        for uid, worker in self._workers.items():
            if worker.is_active and self._around.devices.book.has_pod(uid):
                worker.publish()

    def container_log(self, namespace: str, pod: str, container: str, previous: bool) -> Run:
        """A container's life. Raises LookupError if there is none, ValueError if it has not started."""
        for worker in self._all():
            metadata = worker.pod["metadata"]
            if (metadata["namespace"], metadata["name"]) == (namespace, pod):
                return worker.life_of(container, previous)
        raise LookupError(f'pod "{pod}" does not exist')

    def _all(self) -> list[PodWorker]:
        """The newest first: of two pods of one name the one that is there now."""
        return list(reversed(self._workers.values()))

    def _take_list(self, listed: list[Object]) -> None:
        """All pods there are: the ones we know and do not find are gone, and so are the owners of other containers."""
        found = {uid_of(pod) for pod in listed}
        for uid in self._workers.keys() - found:
            self._remove(uid, None)
        for uid in self._around.runtime.pods() - found - self._workers.keys():
            task = asyncio.create_task(self._end_orphan(uid), name=f"orphan {uid}")
            self._tasks[uid] = task
            task.add_done_callback(partial(self._ended, uid))
        for pod in sorted(listed, key=lambda pod: (pod["metadata"].get("creationTimestamp") or "", uid_of(pod))):
            self._take(pod)
        if self._first is None:
            self._first = found & self._workers.keys() - self._tasks.keys()

    def _take(self, pod: Object) -> None:
        uid = uid_of(pod)
        if uid in self._workers:
            self._workers[uid].update(pod)
            return
        writer = PodWriter(self._client, pod, self._node, self._around.clock, self._around.timings.pod_sync)
        self._workers[uid] = PodWorker(pod, writer, self._around)
        self._queue.put_nowait(uid)

    def _remove(self, uid: str, pod: Object | None) -> None:
        worker = self._workers.get(uid)
        if worker is None:
            return
        if pod is not None:
            worker.update(pod)
        worker.remove()
        task = self._tasks.get(uid)
        if task is not None and task.done():
            self._forget(uid)

    async def _end_orphan(self, uid: str) -> None:
        await self._around.runtime.stop_pod(uid, _ORPHAN_GRACE_SECONDS)
        self._around.runtime.forget(uid)

    async def _rejection(self, uid: str, worker: PodWorker) -> Rejection | None:
        """Why the pod may not run here; otherwise its devices are allocated now."""
        running = frozenset() if self.is_settled else self._around.runtime.running(uid)
        try:
            await self._around.devices.allocate(
                worker.pod, running, lambda: self.active_uids() if self.is_settled else None
            )
        except AllocationError as error:
            return device_rejection(error)
        book = self._around.devices.book
        held = book.taken() if book.has_pod(uid) else {}
        others = [w.pod for u, w in self._workers.items() if u != uid and u in self._tasks and w.is_active]
        try:
            return resource_rejection(worker.pod, others, self._allocatable(), held)
        except ValueError as error:
            return Rejection("UnexpectedAdmissionError", f"Pod was rejected: {error}")

    def _ended(self, uid: str, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            _LOG.error("worker failed, the pod stays as it is task=%s", task.get_name(), exc_info=error)
        worker = self._workers.get(uid)
        if worker is None or worker.is_removed:
            self._forget(uid)

    def _forget(self, uid: str) -> None:
        self._workers.pop(uid, None)
        self._tasks.pop(uid, None)
