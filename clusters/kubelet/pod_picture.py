"""The present state of a pod: the lives of its containers, why they wait, and which devices they have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from clusters.kubelet.device_manager import DeviceManager
from clusters.kubelet.kubelet_admission import Rejection
from clusters.kubelet.pod_status import ContainerState, PodState, Waiting, default_waiting, timestamp
from clusters.kubelet.pods import Container, Object, containers_of, uid_of
from clusters.kubelet.runtime import Run, Runtime
from clusters.kubelet.timings import Timings


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


class PodPicture:
    """One pod; ``waiting`` is the reason why a container does not run, if its lives do not show it."""

    def __init__(self, pod: Object, around: Surroundings) -> None:
        status = pod.get("status") or {}
        self.waiting: dict[str, Waiting] = {}
        self._name = str(pod["metadata"]["name"])
        self._uid = uid_of(pod)
        self._containers = containers_of(pod)
        self._around = around
        self._pod_ip = str(status.get("podIP") or around.new_pod_ip())
        self._started = str(status.get("startTime") or timestamp(around.clock()))
        self._devices: dict[str, Mapping[str, Mapping[str, bool]]] = {}

    def state(self, policy: str, stopping: bool, rejection: Rejection | None) -> PodState:
        """The values in the pod's status."""
        return PodState(
            containers=tuple(self._container_state(container) for container in self._containers),
            policy=policy,
            started=self._started,
            host_ip=self._around.host_ip,
            pod_ip=self._pod_ip,
            stopping=stopping,
            rejection=rejection,
        )

    def life_of(self, container: str, previous: bool) -> Run:
        """The life that a log request means. Raises LookupError if there is no such container, ValueError if there is no such life.

        Of a container that waits to be started again both are the life that has ended.
        """
        if container not in [c.name for c in self._containers]:
            raise LookupError(f'container "{container}" not found in pod "{self._name}"')
        runs = self._around.runtime.runs(self._uid, container)
        if previous and container not in self.waiting:
            runs = runs[:-1]
        if runs:
            return runs[-1]
        if previous:
            raise ValueError(f'previous terminated container "{container}" in pod "{self._name}" not found')
        waiting = self.waiting.get(container, default_waiting(self._containers))
        raise ValueError(f'container "{container}" in pod "{self._name}" is waiting to start: {waiting.reason}')

    def _container_state(self, container: Container) -> ContainerState:
        runs = self._around.runtime.runs(self._uid, container.name)
        devices = self._devices_of(container) if self._around.shows_device_health and runs else {}
        return ContainerState(container, runs, self.waiting.get(container.name), devices)

    def _devices_of(self, container: Container) -> Mapping[str, Mapping[str, bool]]:
        """Resource → id → healthy; the last known state if the devices were taken back."""
        book = self._around.devices.book
        held = book.allocations_of(self._uid, container.name)
        if held:
            self._devices[container.name] = {
                a.resource: {device_id: book.is_healthy(a.resource, device_id) for device_id in a.ids} for a in held
            }
        return self._devices.get(container.name, {})
