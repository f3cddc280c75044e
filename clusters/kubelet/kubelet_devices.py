"""The book of devices: which plugin announced which, and which container has which. Pure; the randomness is passed in.

Rules: Kubernetes pkg/kubelet/cm/devicemanager. A list replaces the list before it; an id that a pod has stays with it when
the device turns unhealthy or its plugin leaves; ids of ended pods come back only at the next look (``release_all_but``).
The taken ids are a note beside the allocations, made before the plugin is asked; a look during an Allocate that
frees something rebuilds the note from the allocations alone, and those ids may then be given out twice.
"""

from __future__ import annotations

import base64
import binascii
import json
import random
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

AllocationKey = tuple[str, str, str]


class AllocationError(Exception):
    """The pod cannot be admitted; the text becomes part of its status."""


@dataclass(frozen=True, slots=True)
class Device:
    """One announced device."""

    id: str
    healthy: bool = True


@dataclass(frozen=True, slots=True)
class Count:
    """The amounts of one resource in the node's status."""

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
        self._announced: dict[str, dict[str, Device]] = {}
        self._healthy: dict[str, set[str]] = {}
        self._unhealthy: dict[str, set[str]] = {}
        self._removed: set[str] = set()
        self._allocations: dict[AllocationKey, Allocation] = {}
        self._taken: dict[str, set[str]] = {}

    def replace_devices(self, resource: str, devices: Iterable[Device]) -> None:
        """Take a full list; a device that is not in it is gone. If two devices have one id the last counts."""
        known = {device.id: device for device in devices}
        self._announced[resource] = known
        self._healthy[resource] = {device.id for device in known.values() if device.healthy}
        self._unhealthy[resource] = known.keys() - self._healthy[resource]
        self._removed.discard(resource)

    def expect(self, resource: str) -> None:
        """A plugin owned the resource in a former life: it counts 0 until the plugin comes back."""
        self._healthy[resource], self._unhealthy[resource] = set(), set()

    def mark_unhealthy(self, resource: str) -> None:
        """The plugin is gone: all its devices are unhealthy; a resource that never had a list shows 0."""
        self._unhealthy[resource] = self._unhealthy.get(resource, set()) | self._healthy.get(resource, set())
        self._healthy[resource] = set()

    def remove(self, resource: str) -> None:
        """The plugin has been gone for too long: the resource has no plugin any more. The node shows 0 once more, and keeps it
        until a client sets another amount."""
        self._healthy.pop(resource, None)
        self._unhealthy.pop(resource, None)
        self._removed.add(resource)

    def told(self, resources: Iterable[str]) -> None:
        """The node shows these amounts of ``counts``; one without a plugin is from now on an operator's."""
        self._removed.difference_update(resources)

    def knows(self, resource: str) -> bool:
        """Do containers that ask for the resource get devices? A plugin owns it, or a container still has some of it."""
        return resource in self._healthy or resource in self._taken

    def healthy_devices(self, resource: str) -> tuple[Device, ...]:
        """The devices that are free or in use."""
        healthy = self._healthy.get(resource, set())
        return tuple(device for device in self._announced.get(resource, {}).values() if device.id in healthy)

    def is_healthy(self, resource: str, device_id: str) -> bool:
        """The last health from its plugin; a device that is not announced counts as healthy."""
        device = self._announced.get(resource, {}).get(device_id)
        return device is None or device.healthy

    def resources(self) -> tuple[str, ...]:
        """Every resource that a plugin owns, sorted."""
        return tuple(sorted(self._healthy))

    def counts(self) -> dict[str, Count]:
        """Capacity counts every device, allocatable the healthy ones; allocations lower neither."""
        owned = {
            resource: Count(len(healthy) + len(self._unhealthy[resource]), len(healthy))
            for resource, healthy in self._healthy.items()
        }
        return {resource: Count(0, 0) for resource in self._removed} | owned

    def allocations(self) -> tuple[Allocation, ...]:
        """All of them, in the order in which they were made."""
        return tuple(self._allocations.values())

    def allocations_of(self, pod_uid: str, container: str) -> tuple[Allocation, ...]:
        """The devices that one container has, of all resources."""
        return tuple(a for a in self._allocations.values() if (a.pod_uid, a.container) == (pod_uid, container))

    def has_pod(self, pod_uid: str) -> bool:
        """Whether the pod has devices."""
        return any(a.pod_uid == pod_uid for a in self._allocations.values())

    def take(self, resource: str, ids: Iterable[str]) -> None:
        """Note that these ids are spoken for, before the plugin is asked."""
        self._taken.setdefault(resource, set()).update(ids)

    def keep(self, allocation: Allocation) -> None:
        """Write down what a container has from now on; its ids were taken before."""
        self._allocations[allocation.key] = allocation

    def store(self, allocation: Allocation) -> None:
        """Take and keep in one step."""
        self.take(allocation.resource, allocation.ids)
        self.keep(allocation)

    def count_again(self) -> None:
        """Forget what was taken and not kept: the plugin refused."""
        self._taken = {}
        for allocation in self._allocations.values():
            self.take(allocation.resource, allocation.ids)

    def release_all_but(self, active_pods: Collection[str]) -> None:
        """Take back the ids of pods that are not among these uids."""
        kept = {key: a for key, a in self._allocations.items() if a.pod_uid in active_pods}
        if len(kept) < len(self._allocations):
            self._allocations = kept
            self.count_again()

    def in_use(self, resource: str) -> frozenset[str]:
        """The ids of a resource that are taken."""
        return frozenset(self._taken.get(resource, ()))

    def taken(self) -> dict[str, int]:
        """How many ids are taken of each resource."""
        return {resource: len(ids) for resource, ids in self._taken.items()}

    def choose(self, key: AllocationKey, size: int, reusable: Collection[str], rng: random.Random) -> Choice | None:
        """Begin to choose ``size`` ids for a container that does not run yet; None if it has them already.

        Ids from ``reusable`` (ordinary init containers of the same pod, which have ended by then) come first. Raises
        AllocationError in the words by which tests and operators know a real kubelet.
        """
        resource = key[2]
        held = self.check_size(key, size)
        healthy = self._healthy_for(resource, held)
        if held is not None or size == 0:
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

    def check_size(self, key: AllocationKey, size: int) -> Allocation | None:
        """The devices that a container has of a resource. Raises AllocationError if that is not as much as it asks."""
        held = self._allocations.get(key)
        if held is not None and len(held.ids) != size:
            raise AllocationError(
                f'pod "{key[0]}" container "{key[1]}" changed request for resource "{key[2]}" '
                f"from {len(held.ids)} to {size}"
            )
        return held

    def _healthy_for(self, resource: str, held: Allocation | None) -> frozenset[str]:
        """The healthy ids, or the reason why the container may not start on them."""
        if resource not in self._healthy:
            raise AllocationError(f"cannot allocate unregistered device {resource}")
        healthy = frozenset(self._healthy[resource])
        if not healthy:
            raise AllocationError(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
        if held is not None and not healthy.issuperset(held.ids):
            raise AllocationError(
                f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {resource}"
            )
        return healthy


def complete(choice: Choice, preferred: Sequence[str], rng: random.Random) -> tuple[str, ...]:
    """End a choice: the plugin's wishes as far as they are free, the rest at random."""
    free = [device_id for device_id in dict.fromkeys(preferred) if device_id in choice.available]
    # If there are too many wishes any may come true.
    wished = free if len(free) <= choice.missing else list(_take(rng, free, choice.missing))
    rest = choice.available.difference(wished)
    return (*choice.reused, *wished, *_take(rng, rest, choice.missing - len(wished)))


def _take(rng: random.Random, ids: Collection[str], most: int) -> tuple[str, ...]:
    """Up to ``most`` of the ids, at random; sorted first, because a set's own order differs from run to run."""
    return tuple(rng.sample(sorted(ids), min(most, len(ids))))


FILE_NAME: Final = "kubelet_internal_checkpoint"
# The key of ids without a NUMA node, as all are here.
_NO_NUMA: Final = "-1"


class CheckpointError(Exception):
    """The file is no checkpoint of ours."""


def encode(book: DeviceBook) -> bytes:
    """The file's content: allocations, and the healthy ids of each resource that a plugin owns."""
    data = {
        "PodDeviceEntries": [_entry(allocation) for allocation in book.allocations()],
        "RegisteredDevices": {
            resource: [device.id for device in book.healthy_devices(resource)] for resource in book.resources()
        },
    }
    return json.dumps({"Data": data, "Checksum": checksum(data)}, separators=(",", ":")).encode()


def decode(content: bytes) -> tuple[tuple[Allocation, ...], tuple[str, ...]]:
    """Allocations and names of resources. Raises CheckpointError for anything that ``encode`` did not write."""
    try:
        document = json.loads(content)
        data = document["Data"]
        if document["Checksum"] != checksum(data):
            raise CheckpointError("its checksum is wrong")
        allocations = tuple(_allocation(entry) for entry in data["PodDeviceEntries"] or ())
        return allocations, tuple(data["RegisteredDevices"] or ())
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error) as error:
        raise CheckpointError(f"it is not a checkpoint: {error!r}") from error


def write(folder: Path, book: DeviceBook) -> None:
    """Replace the file in one step, so that a reader never sees half of it."""
    temporary = folder / f".{FILE_NAME}.new"
    temporary.write_bytes(encode(book))
    temporary.replace(folder / FILE_NAME)


def restore(folder: Path, book: DeviceBook) -> None:
    """Fill an empty book from the file, if there is one.

    Its resources come back without devices: they count 0 until their plugin registers again. Raises CheckpointError.
    """
    try:
        content = (folder / FILE_NAME).read_bytes()
    except FileNotFoundError:
        return
    allocations, resources = decode(content)
    for resource in resources:
        book.expect(resource)
    for allocation in allocations:
        book.store(allocation)


def _entry(allocation: Allocation) -> dict[str, Any]:
    return {
        "PodUID": allocation.pod_uid,
        "ContainerName": allocation.container,
        "ResourceName": allocation.resource,
        "DeviceIDs": {_NO_NUMA: list(allocation.ids)},
        "AllocResp": base64.b64encode(allocation.response).decode(),
    }


def _allocation(entry: Mapping[str, Any]) -> Allocation:
    ids = tuple(device_id for near in entry["DeviceIDs"].values() for device_id in near)
    response = base64.b64decode(entry["AllocResp"], validate=True)
    return Allocation(entry["PodUID"], entry["ContainerName"], entry["ResourceName"], ids, response)


def checksum(data: Any) -> int:
    """Ours."""
    return zlib.crc32(json.dumps(data, sort_keys=True).encode())
