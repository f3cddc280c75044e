"""The life of one pod on this node, from admission to deletion.

::

    rejected ──────────────────────────────┐
    init containers, one after the other   │
      └ sidecars stay                      ├─► ended (Succeeded, Failed) ─► deletion asked for ─► gone
    containers, together, restarted by     │
    policy                                 │
      └ deletion asked for: stop, wait ────┘

A deletion ends the life wherever it is; the containers get their grace period, and the object goes when the last of
them has ended. A worker that is made after the kubelet's restart goes on with the containers that it finds.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from clusters.api.waiting import side_by_side
from clusters.kubelet.device_manager import DeviceManager, PreStartError
from clusters.kubelet.environment import environment_of
from clusters.kubelet.pod_status import (
    ContainerState,
    PodState,
    Waiting,
    default_waiting,
    phase_of,
    status_of,
    timestamp,
)
from clusters.kubelet.pod_writer import PodWriter
from clusters.kubelet.pods import (
    Container,
    Kind,
    Object,
    Rejection,
    containers_of,
    grace_seconds,
    is_being_deleted,
    is_restarted,
    is_terminal,
    restart_policy,
    uid_of,
)
from clusters.kubelet.runtime import Run, Runtime
from clusters.kubelet.timings import Timings

# The time that running containers get to stop if their pod is not let in again, in seconds.
_REJECTED_GRACE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The objects that all pods of a node share."""

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
                    return await self._start_now(container)
            except PreStartError as error:
                self._wait_because(container, Waiting("CreateContainerConfigError", str(error)))
                await self.writer.warn("Failed", f"Error: {error}")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await news.wait()
            pause = min(2 * pause, self._around.timings.start_retry_longest)

    async def _start_now(self, container: Container) -> Run:
        self._waiting.pop(container.name, None)
        from_plugins, requests = self._around.devices.given(self._uid, container.name)
        environment = environment_of(self.pod, container, from_plugins)
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
