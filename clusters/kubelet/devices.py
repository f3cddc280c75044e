"""The book of devices: who announced what, who has what. Pure; the randomness is passed in.

Rules: Kubernetes pkg/kubelet/cm/devicemanager. A list replaces the list before it; an id belongs to one pod at a time;
an id that a pod has stays with it when the device turns sick or its plugin leaves; ids of ended pods come back only
when somebody looks (``release_all_but``).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

AllocationKey = tuple[str, str, str]


class AllocationError(Exception):
    """The pod cannot be admitted; the text becomes part of its status."""


@dataclass(frozen=True, slots=True)
class Device:
    """One announced device."""

    id: str
    healthy: bool = True
    numa: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Count:
    """What the node's status shows of one resource."""

    capacity: int
    allocatable: int


@dataclass(frozen=True, slots=True)
class Allocation:
    """The devices of one resource that one container has, and the plugin's answer (an encoded message)."""

    pod_uid: str
    container: str
    resource: str
    ids: tuple[str, ...]
    response: bytes = b""

    @property
    def key(self) -> AllocationKey:
        """Its place in the book."""
        return self.pod_uid, self.container, self.resource


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice half made: ids that are certain (reused), and from which others how many are missing."""

    reused: tuple[str, ...]
    available: frozenset[str]
    missing: int


class DeviceBook:
    """Devices by resource and the allocations of them."""

    def __init__(self) -> None:
        self._devices: dict[str, dict[str, Device]] = {}
        self._allocations: dict[AllocationKey, Allocation] = {}

    def replace_devices(self, resource: str, devices: Iterable[Device]) -> None:
        """Take a full list; what it does not name is gone. Of two devices of one id the last counts."""
        self._devices[resource] = {device.id: device for device in devices}

    def mark_unhealthy(self, resource: str) -> None:
        """The plugin is gone: all its devices are sick; a resource that never had a list shows 0."""
        known = self._devices.get(resource, {})
        self._devices[resource] = {device.id: Device(device.id, False, device.numa) for device in known.values()}

    def knows(self, resource: str) -> bool:
        """Whether a plugin ever owned the resource: the key stays in the node's status for ever."""
        return resource in self._devices

    def devices(self, resource: str) -> tuple[Device, ...]:
        """The devices announced last."""
        return tuple(self._devices.get(resource, {}).values())

    def resources(self) -> tuple[str, ...]:
        """Every resource that a plugin ever owned, sorted."""
        return tuple(sorted(self._devices))

    def counts(self) -> dict[str, Count]:
        """Capacity counts every device, allocatable the healthy ones; allocations lower neither."""
        return {
            resource: Count(len(devices), sum(device.healthy for device in devices.values()))
            for resource, devices in self._devices.items()
        }

    def allocations(self) -> tuple[Allocation, ...]:
        """All of them, in the order in which they were made."""
        return tuple(self._allocations.values())

    def allocation(self, key: AllocationKey) -> Allocation | None:
        """What one container has of one resource."""
        return self._allocations.get(key)

    def allocations_of(self, pod_uid: str, container: str) -> tuple[Allocation, ...]:
        """What one container has, of all resources."""
        return tuple(a for a in self._allocations.values() if (a.pod_uid, a.container) == (pod_uid, container))

    def store(self, allocation: Allocation) -> None:
        """Write down what a container has from now on."""
        self._allocations[allocation.key] = allocation

    def release_all_but(self, active_pods: Collection[str]) -> None:
        """Take back the ids of pods that are not among these uids."""
        self._allocations = {key: a for key, a in self._allocations.items() if a.pod_uid in active_pods}

    def in_use(self, resource: str) -> frozenset[str]:
        """The ids of a resource that some container has."""
        return frozenset(i for a in self._allocations.values() if a.resource == resource for i in a.ids)

    def choose(self, key: AllocationKey, size: int, reusable: Collection[str], rng: random.Random) -> Choice | None:
        """Begin to choose ``size`` ids for a container that does not run yet; None where it has them already.

        Ids from ``reusable`` (ordinary init containers of the same pod, which have ended by then) come first. Raises
        AllocationError in the words by which tests and operators know a real kubelet.
        """
        resource = key[2]
        held = self._allocations.get(key)
        if held is not None and len(held.ids) != size:
            raise AllocationError(
                f"pod {key[0]!r} container {key[1]!r} changed request for resource {resource!r} "
                f"from {len(held.ids)} to {size}"
            )
        healthy = self._healthy_for(resource, held)
        if held is not None:
            return None
        reused = _take(rng, reusable, size)
        available = healthy - self.in_use(resource)
        missing = size - len(reused)
        if len(available) < missing:
            raise AllocationError(
                f"requested number of devices unavailable for {resource}. "
                f"Requested: {missing}, Available: {len(available)}"
            )
        return Choice(reused, available, missing)

    def _healthy_for(self, resource: str, held: Allocation | None) -> frozenset[str]:
        """The healthy ids, or the reason why the container may not start on them."""
        if resource not in self._devices:
            raise AllocationError(f"cannot allocate unregistered device {resource}")
        healthy = frozenset(device.id for device in self._devices[resource].values() if device.healthy)
        if not healthy:
            raise AllocationError(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
        if held is not None and not healthy.issuperset(held.ids):
            raise AllocationError(
                f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {resource}"
            )
        return healthy


def complete(choice: Choice, preferred: Sequence[str], rng: random.Random) -> tuple[str, ...]:
    """End a choice: the plugin's wishes as far as they are free, the rest at random."""
    wished = [device_id for device_id in dict.fromkeys(preferred) if device_id in choice.available][: choice.missing]
    rest = choice.available.difference(wished)
    return (*choice.reused, *wished, *_take(rng, rest, choice.missing - len(wished)))


def _take(rng: random.Random, ids: Collection[str], most: int) -> tuple[str, ...]:
    """Up to ``most`` of the ids, at random; sorted first, because a set's own order differs from run to run."""
    return tuple(rng.sample(sorted(ids), min(most, len(ids))))
