"""The pods of one node: watched, admitted one after the other, each with a worker.

Pods are admitted in the order in which they became bound (unless the timings change it); after a start, in which
that order is unknown, by creation time. A pod is forgotten when its worker has ended *and* the API server has reported that
it is gone: its last changes may still be on their way when we delete it.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from clusters.api.api_client import ApiClient, ApiError, is_being_deleted, is_terminal, uid_of
from clusters.api.connection import TransportError
from clusters.api.resources import CONFIG_MAPS, PODS, SECRETS
from clusters.api.waiting import side_by_side
from clusters.kubelet.device_manager import DeviceManager, PreStartError
from clusters.kubelet.kubelet_devices import AllocationError
from clusters.kubelet.machine import Timings
from clusters.kubelet.pod_status import (
    ContainerState,
    PodState,
    Waiting,
    default_waiting,
    phase_of,
    status_of,
    timestamp,
)
from clusters.kubelet.pods import (
    Container,
    Kind,
    Object,
    Rejection,
    containers_of,
    device_rejection,
    environment_of,
    grace_seconds,
    is_restarted,
    resource_rejection,
    restart_policy,
)
from clusters.kubelet.runtime import Run, Runtime

_LOG = logging.getLogger(__name__)

# Between two attempts while the API server does not answer, in seconds.
_RETRY_SECONDS: Final = 0.5
# The pod is gone, or another one has its name.
_GONE: Final = (404, 409, 422)
# A merge leaves what it does not name: a pod that is turned away after it has run would seem to run on.
_NO_CONTAINERS: Final = {"containerStatuses": None, "initContainerStatuses": None}


class PodWriter:
    """Writes the newest status; states that changed before they could be written are left out."""

    def __init__(
        self, client: ApiClient, pod: Object, node: str, clock: Callable[[], float], delay_seconds: float
    ) -> None:
        self._client = client
        self._uid = uid_of(pod)
        self._name = str(pod["metadata"]["name"])
        self._namespace = str(pod["metadata"]["namespace"])
        self._node = node
        self._clock = clock
        self._delay_seconds = delay_seconds
        self._wanted: Object | None = None
        self._written: Object | None = None
        self._task: asyncio.Task[None] | None = None
        self._events = 0

    def publish(self, status: Object) -> None:
        """Have ``status`` written soon."""
        self._wanted = status
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write(), name=f"status of {self._namespace}/{self._name}")

    async def flush(self) -> None:
        """Wait until the newest status is written."""
        if self._task is not None:
            await self._task

    async def stop(self) -> None:
        """Write no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def delete(self) -> None:
        """Remove the object: its containers are gone."""
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": self._uid}}
        await self._send("DELETE", PODS.path(self._namespace, self._name), body)

    async def warn(self, reason: str, message: str) -> None:
        """A Warning event on the pod."""
        self._events += 1
        seconds = self._clock()
        now = timestamp(seconds)
        # By the time, as real components name theirs: a counter alone meets the scheduler's events, and those of before a restart.
        name = f"{self._name}.{int(seconds * 1e9) + self._events:x}"
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": self._namespace},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": self._name,
                "namespace": self._namespace,
                "uid": self._uid,
            },
            "type": "Warning",
            "reason": reason,
            "message": message[:1024],
            "source": {"component": "kubelet", "host": self._node},
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
        }
        try:
            await self._client.create(event)
        except (ApiError, TransportError) as error:
            _LOG.warning("event lost pod=%s/%s reason=%s error=%s", self._namespace, self._name, reason, error)

    async def _write(self) -> None:
        while self._wanted != self._written:
            await asyncio.sleep(self._delay_seconds)
            status = self._wanted
            body = {"metadata": {"uid": self._uid}, "status": {**_NO_CONTAINERS, **(status or {})}}
            await self._send("PATCH", PODS.path(self._namespace, self._name, "status"), body)
            self._written = status

    async def _send(self, method: str, path: str, body: Any) -> None:
        """Send until the API server has answered; a refusal that will not pass is logged."""
        kind = "application/json" if method == "DELETE" else "application/strategic-merge-patch+json"
        while True:
            try:
                await self._client.request(method, path, body=body, content_type=kind)
                return
            except ApiError as error:
                if error.code < 500 and error.code != 429:
                    if error.code not in _GONE:
                        _LOG.error("%s refused path=%s error=%s", method, path, error)
                    return
            except TransportError as error:
                _LOG.warning("no answer, trying again path=%s error=%r", path, error)
            await asyncio.sleep(_RETRY_SECONDS)


# The time that running containers get to stop if their pod is not let in again, in seconds.
_REJECTED_GRACE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The objects that all pods of a node share."""

    client: ApiClient
    runtime: Runtime
    devices: DeviceManager
    timings: Timings
    clock: Callable[[], float]
    host_ip: str
    new_pod_ip: Callable[[], str]
    shows_device_health: bool = False
    """Whether a pod's status names its devices, as from 1.36 on."""


class PodWorker:
    """Drives one pod: ``run`` is its life, ``update`` and ``remove`` bring changes from the API server."""

    def __init__(self, pod: Object, writer: PodWriter, around: Surroundings) -> None:
        self.pod = pod
        self.status: Object = pod.get("status") or {}
        self._around = around
        self.writer = writer
        self._uid = uid_of(pod)
        self._containers = containers_of(pod)
        self._pod_ip = str(self.status.get("podIP") or around.new_pod_ip())
        self._started = str(self.status.get("startTime") or timestamp(around.clock()))
        # Why a container does not run, if its lives do not show it.
        self._waiting: dict[str, Waiting] = {}
        self._devices: dict[str, Mapping[str, Mapping[str, bool]]] = {}
        self.rejection: Rejection | None = None
        """Why the pod is not let in: it has ended before it began."""
        self._one_start = asyncio.Lock()
        self._news = asyncio.Event()
        self._stop = asyncio.Event()
        self.was_terminal = is_terminal(pod)
        """Whether the pod had ended before this worker knew it: it is not admitted again."""
        self.is_removed = False
        if is_being_deleted(pod):
            self._stop.set()

    @property
    def is_active(self) -> bool:
        """Whether the pod still holds devices: it has not ended and the API server still has it."""
        return not (self.was_terminal or self.is_removed) and phase_of(self._state()) not in ("Succeeded", "Failed")

    def update(self, pod: Object) -> None:
        """Take the object's new state; after changed annotations a container that waits for its plugin tries immediately."""
        changed = pod["metadata"].get("annotations") != self.pod["metadata"].get("annotations")
        self.pod = pod
        if is_being_deleted(pod):
            # As in a real one: a stop that is under way is not interrupted for a shorter grace (kubernetes #113606).
            self._stop.set()
        if changed:
            self._news.set()
            self._news = asyncio.Event()

    def remove(self) -> None:
        """The object is gone, by force or because we deleted it; containers that still run are stopped."""
        self.is_removed = True
        self._stop.set()

    async def run(self) -> None:
        """Live until the pod has ended and is deleted."""
        rejection = self.rejection
        if rejection is not None:
            await self.writer.warn(rejection.reason, rejection.message.removeprefix("Pod was rejected: "))
            # It may have run before the kubelet's restart; now its containers have no owner.
            self._around.runtime.tell_to_stop(self._uid, _REJECTED_GRACE_SECONDS)
        elif not (self.was_terminal or self._stop.is_set()):
            await self._live_until_stopped()
        if not self.was_terminal:
            self.publish()
        await self._stop.wait()
        await self._around.runtime.stop_pod(self._uid, grace_seconds(self.pod))
        if not self.was_terminal:
            self.publish()
        await self.writer.flush()
        if not self.is_removed:
            await self.writer.delete()
        self._around.runtime.forget(self._uid)

    async def _live_until_stopped(self) -> None:
        async with side_by_side(self._live(), self._stop.wait()) as (life, stop):
            await asyncio.wait({life, stop}, return_when=asyncio.FIRST_COMPLETED)
            if life.done():
                life.result()
        if self._stop.is_set():
            self.publish()
            await self._around.runtime.stop_pod(self._uid, grace_seconds(self.pod))

    async def _live(self) -> None:
        """Start everything in its order and wait until nothing is left to do; ends early by cancellation."""
        self.publish()
        async with asyncio.TaskGroup() as group:
            sidecars: list[asyncio.Task[int]] = []
            initialized = await self._initialize(group, sidecars)
            if initialized:
                apps = [c for c in self._containers if c.kind is Kind.APP]
                await asyncio.gather(*[group.create_task(self._keep(c)) for c in apps])
            for sidecar in sidecars:
                sidecar.cancel()
        await self._around.runtime.stop_pod(self._uid, grace_seconds(self.pod))

    async def _initialize(self, group: asyncio.TaskGroup, sidecars: list[asyncio.Task[int]]) -> bool:
        """Run the init containers; False if one failed for good."""
        for container in self._containers:
            if container.kind is Kind.SIDECAR:
                started = asyncio.Event()
                sidecars.append(group.create_task(self._keep(container, started)))
                await started.wait()
            elif container.kind is Kind.INIT and await self._keep(container) != 0:
                return False
        return True

    async def _keep(self, container: Container, started: asyncio.Event | None = None) -> int:
        """Keep one container going by its policy; returns the exit code after which it stays ended."""
        timings, pause = self._around.timings, 0.0
        runs = self._around.runtime.runs(self._uid, container.name)
        run = runs[-1] if runs else await self._start(container)
        while True:
            if started is not None:
                started.set()
            ended = await run.ended()
            if not is_restarted(container.kind, restart_policy(self.pod), ended.code):
                self.publish()
                return ended.code
            if ended.finished - run.started > 2 * timings.restart_longest:
                pause = 0.0
            if pause:
                await self._back_off(container, pause)
            pause = min(2 * pause or timings.restart, timings.restart_longest)
            run = await self._start(container)

    async def _back_off(self, container: Container, seconds: float) -> None:
        metadata = self.pod["metadata"]
        pod = f"{metadata['name']}_{metadata['namespace']}({self._uid})"
        text = f"back-off {seconds:g}s restarting failed container={container.name} pod={pod}"
        self._wait_because(container, Waiting("CrashLoopBackOff", text))
        await self.writer.warn("BackOff", f"Back-off restarting failed container {container.name} in pod {pod}")
        await asyncio.sleep(seconds)

    async def _start(self, container: Container) -> Run:
        """Start a container as soon as its plugins agree; containers of one pod start one after the other."""
        pause = self._around.timings.start_retry
        while True:
            # Taken before the question: what changes while the plugin answers counts too.
            news = self._news
            try:
                async with self._one_start:
                    await self._around.devices.pre_start(self._uid, container.name)
                    imported = await self._imported(container)
                    return await self._start_now(container, imported)
            except PreStartError as error:
                self._wait_because(container, Waiting("CreateContainerConfigError", str(error)))
                await self.writer.warn("Failed", f"Error: {error}")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await news.wait()
            pause = min(2 * pause, self._around.timings.start_retry_longest)

    async def _imported(self, container: Container) -> dict[str, str]:
        """The variables of ``envFrom``; the last source wins. Raises PreStartError if one is not there."""
        found: dict[str, str] = {}
        for source in container.env_from:
            kind = SECRETS if "secretRef" in source else CONFIG_MAPS
            reference = source.get("secretRef") or source["configMapRef"]
            try:
                item = await self._around.client.find(kind, reference["name"], self.pod["metadata"]["namespace"])
            except (ApiError, TransportError) as error:
                raise PreStartError(str(error)) from error
            if item is None and not reference.get("optional"):
                raise PreStartError(f'{kind.kind.lower()} "{reference["name"]}" not found')
            for key, text in ((item or {}).get("data") or {}).items():
                found[source.get("prefix", "") + key] = base64.b64decode(text).decode() if kind is SECRETS else text
        return found

    async def _start_now(self, container: Container, imported: Mapping[str, str]) -> Run:
        self._waiting.pop(container.name, None)
        from_plugins, requests = self._around.devices.given(self._uid, container.name)
        environment = environment_of(self.pod, container, from_plugins, imported)
        qos = str((self.pod.get("status") or {}).get("qosClass", "Burstable"))
        run = await self._around.runtime.start(self._uid, container, environment, requests, qos)
        self.publish()
        return run

    def _wait_because(self, container: Container, waiting: Waiting) -> None:
        self._waiting[container.name] = waiting
        self.publish()

    def publish(self) -> None:
        """Have the pod's status written, if it has changed."""
        before = self.status.get("conditions") or ()
        self.status = status_of(self._state(), self._around.clock(), before)
        self.writer.publish(self.status)

    def _state(self) -> PodState:
        return PodState(
            containers=tuple(self._container_state(container) for container in self._containers),
            policy=restart_policy(self.pod),
            started=self._started,
            host_ip=self._around.host_ip,
            pod_ip=self._pod_ip,
            stopping=self._stop.is_set(),
            rejection=self.rejection,
        )

    def life_of(self, container: str, previous: bool) -> Run:
        """The life that a log request means. Raises LookupError if there is no such container, ValueError if there is no such life.

        Of a container that waits to be started again both are the life that has ended.
        """
        name = self.pod["metadata"]["name"]
        if container not in [c.name for c in self._containers]:
            raise LookupError(f'container "{container}" not found in pod "{name}"')
        runs = self._around.runtime.runs(self._uid, container)
        if previous and container not in self._waiting:
            runs = runs[:-1]
        if runs:
            return runs[-1]
        if previous:
            raise ValueError(f'previous terminated container "{container}" in pod "{name}" not found')
        waiting = self._waiting.get(container, default_waiting(self._containers))
        raise ValueError(f'container "{container}" in pod "{name}" is waiting to start: {waiting.reason}')

    def _container_state(self, container: Container) -> ContainerState:
        runs = self._around.runtime.runs(self._uid, container.name)
        devices = self._devices_of(container) if self._around.shows_device_health and runs else {}
        return ContainerState(container, runs, self._waiting.get(container.name), devices)

    def _devices_of(self, container: Container) -> Mapping[str, Mapping[str, bool]]:
        """Resource → id → healthy; the last known state if the devices were taken back."""
        book = self._around.devices.book
        held = book.allocations_of(self._uid, container.name)
        if held:
            self._devices[container.name] = {
                a.resource: {device_id: book.is_healthy(a.resource, device_id) for device_id in a.ids} for a in held
            }
        return self._devices.get(container.name, {})


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
